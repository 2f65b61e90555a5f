import { z } from 'zod'
import { whole } from './wholeNumber.js'

function table(chunkHours: number, columnstoreAfterHours: number, what: string) {
  return z
    .strictObject({
      chunkHours: whole(1, 8760).default(chunkHours).describe('Time span of one chunk, on TimescaleDB.'),
      columnstoreAfterHours: whole(1, 87_600)
        .default(columnstoreAfterHours)
        .describe('Age at which chunks become columnar, on TimescaleDB Community.'),
      retentionDays: whole(1, 36_500).exactOptional().describe('Age at which rows are removed; by default never.'),
    })
    .prefault({})
    .describe(what)
}

export const storage = z
  .strictObject({
    tickers: table(24, 48, 'market.tickers'),
    orderBooks: table(6, 24, 'market.order_books'),
    rpiOrderBooks: table(6, 24, 'market.rpi_order_books'),
    fills: table(24, 72, 'market.fills'),
    candles: table(168, 336, 'market.candles'),
    rejectedRows: z
      .strictObject({
        retentionDays: whole(1, 36_500)
          .default(30)
          .describe('Age since it was last seen at which a row that could not be understood is removed.'),
      })
      .prefault({})
      .describe('recorder.rejected_row'),
  })
  .prefault({})
  .describe('How the tables are kept.')
