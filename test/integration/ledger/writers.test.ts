import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { tickerFields } from '../../../src/market/stream.js'
import { appendRows } from '../../../src/db/writeRows.js'
import { rejectedRow } from '../../../src/market/rows.js'
import { insertRejectedRows } from '../../../src/ledger/rejectedRows.js'
import { traitsOf } from '../../../src/db/databaseError.js'
import { aBook, anInstrument, anRpiBook, aTicker, someTime } from '../../support/marketRows.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.tickers, market.order_books, market.rpi_order_books, market.fills, recorder.rejected_row`.execute(
    test.database.db,
  )
})

/** Decimals as a service may spell them. */
const decimal = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.stringMatching(/^(0|[1-9]\d{0,40})$/),
    fc.option(fc.stringMatching(/^\d{1,40}$/), { nil: undefined }),
  )
  .map(([sign, whole, fraction]) => `${sign}${whole}${fraction === undefined ? '' : `.${fraction}`}`)

/** numeric itself drops one thing only: the sign of zero. */
function asNumeric(text: string): string {
  return /^-[0.]*$/.test(text) ? text.slice(1) : text
}

describe('tickers', () => {
  it('keep every field, and only the first of a moment', async () => {
    const { db } = test.database
    const values = Object.fromEntries(
      Object.entries(tickerFields).map(([field, kind], i) => [
        field,
        kind === 'time?' ? someTime + i : kind === 'text?' ? 'delivery_normal' : `${i}.00${i}0`,
      ]),
    )
    const full = aTicker({ ...values, extra: { newField: 'x' } })
    const result = await appendRows(db, 'tickers', [full, aTicker({ symbol: 'ETHUSDT' }), aTicker({ lastPrice: '1' })])
    expect(result).toEqual({ inserted: 2, updated: 0 })
    const stored = await db.selectFrom('market.tickers').selectAll().orderBy('symbol').execute()
    expect(stored[0]).toEqual({
      category: 'SPOT',
      symbol: 'BTCUSDT',
      ts: someTime,
      last_price: '0.0000',
      bid1_price: '1.0010',
      bid1_size: '2.0020',
      ask1_price: '3.0030',
      ask1_size: '4.0040',
      open_price_24h: '5.0050',
      high_price_24h: '6.0060',
      low_price_24h: '7.0070',
      volume_24h: '8.0080',
      turnover_24h: '9.0090',
      price_24h_pcnt: '10.00100',
      index_price: '11.00110',
      mark_price: '12.00120',
      funding_rate: '13.00130',
      open_interest: '14.00140',
      delivery_start_time: someTime + 15,
      delivery_time: someTime + 16,
      delivery_status: 'delivery_normal',
      platform_turnover_24h: '18.00180',
      received_at: someTime + 250,
      extra: { newField: 'x' },
    })
    expect(stored[1]).toMatchObject({ last_price: null, delivery_time: null, delivery_status: null, extra: {} })
  })

  it('show the newest of each instrument in latest_tickers', async () => {
    const { db } = test.database
    await recordInstruments(db, 'SPOT', [anInstrument(), anInstrument({ symbol: 'ETHUSDT' })], someTime)
    const day = 86_400_000
    await appendRows(db, 'tickers', [
      aTicker({ ts: someTime - 3 * day, lastPrice: '1' }),
      aTicker({ ts: someTime, lastPrice: '2' }),
      aTicker({ symbol: 'ETHUSDT', ts: someTime - 2 * day, lastPrice: '3' }),
    ])
    const { rows } = await sql<{ symbol: string; last_price: string }>`
      select symbol, last_price from market.latest_tickers order by symbol`.execute(db)
    expect(rows).toEqual([
      { symbol: 'BTCUSDT', last_price: '2' },
      { symbol: 'ETHUSDT', last_price: '3' },
    ])
    await recordInstruments(db, 'SPOT', [anInstrument({ isReality: true })], someTime + day, { complete: true })
    const { rows: listed } = await sql`
      select symbol, kind, disappeared_at from market.latest_tickers order by symbol`.execute(db)
    expect(listed).toEqual([
      { symbol: 'BTCUSDT', kind: 'tokenised_stock', disappeared_at: null },
      { symbol: 'ETHUSDT', kind: 'crypto', disappeared_at: someTime + day },
    ])
  })
})

describe('order books', () => {
  it('keep their levels and know best prices, mid and spread exactly', async () => {
    const { db } = test.database
    const empty = { bidPrices: [], bidSizes: [], askPrices: [], askSizes: [] }
    const books = [aBook(), aBook({ symbol: 'EMPTY', ...empty }), aBook()]
    expect(await appendRows(db, 'order_books', books)).toEqual({ inserted: 2, updated: 0 })
    expect(await appendRows(db, 'order_books', books)).toEqual({ inserted: 0, updated: 0 })
    const stored = await db.selectFrom('market.order_books').selectAll().orderBy('symbol').execute()
    expect(stored[0]).toEqual({
      category: 'SPOT',
      symbol: 'BTCUSDT',
      ts: someTime,
      bid_prices: ['240.00', '239.99'],
      bid_sizes: ['1.0', '2'],
      ask_prices: ['240.01'],
      ask_sizes: ['3.500'],
      best_bid: '240.00',
      best_ask: '240.01',
      mid: '240.005',
      spread: '0.01',
      received_at: someTime + 250,
      extra: {},
    })
    expect(stored[1]).toMatchObject({ bid_prices: [], best_bid: null, best_ask: null, mid: null, spread: null })
  })

  it('keep every decimal of every level', async () => {
    const { db } = test.database
    let symbol = 0
    const level = fc.tuple(decimal, decimal, decimal)
    await fc.assert(
      fc.asyncProperty(fc.array(level, { maxLength: 30 }), fc.array(level, { maxLength: 30 }), async (bids, asks) => {
        const book = anRpiBook({
          symbol: `S${++symbol}`,
          bidPrices: bids.map((entry) => entry[0]),
          bidSizes: bids.map((entry) => entry[1]),
          bidRpiSizes: bids.map((entry) => entry[2]),
          askPrices: asks.map((entry) => entry[0]),
          askSizes: asks.map((entry) => entry[1]),
          askRpiSizes: asks.map((entry) => entry[2]),
        })
        await appendRows(db, 'rpi_order_books', [anRpiBook(), book])
        const stored = await db
          .selectFrom('market.rpi_order_books')
          .selectAll()
          .where('symbol', '=', book.symbol)
          .executeTakeFirstOrThrow()
        expect(stored).toMatchObject({
          bid_prices: book.bidPrices.map(asNumeric),
          bid_sizes: book.bidSizes.map(asNumeric),
          bid_rpi_sizes: book.bidRpiSizes.map(asNumeric),
          ask_prices: book.askPrices.map(asNumeric),
          ask_sizes: book.askSizes.map(asNumeric),
          ask_rpi_sizes: book.askRpiSizes.map(asNumeric),
        })
      }),
      { numRuns: 30 },
    )
  })

  it('are refused when prices and sizes do not pair up', async () => {
    const error: unknown = await appendRows(test.database.db, 'order_books', [aBook({ bidSizes: ['1'] })]).catch(
      (e: unknown) => e,
    )
    expect(traitsOf(error).isOfRow).toBe(true)
  })

  it('can be read as one row per level', async () => {
    const { db } = test.database
    await appendRows(db, 'order_books', [aBook()])
    await appendRows(db, 'rpi_order_books', [anRpiBook()])
    const { rows } = await sql`
      select side, level, price, size from market.order_book_levels order by side desc, level`.execute(db)
    expect(rows).toEqual([
      { side: 'bid', level: 1, price: '240.00', size: '1.0' },
      { side: 'bid', level: 2, price: '239.99', size: '2' },
      { side: 'ask', level: 1, price: '240.01', size: '3.500' },
    ])
    const rpi = await sql`
      select side, level, price, size, rpi_size from market.rpi_order_book_levels
      where side = 'bid' order by level`.execute(db)
    expect(rpi.rows).toEqual([
      { side: 'bid', level: 1, price: '240.00', size: '1.0', rpi_size: '0' },
      { side: 'bid', level: 2, price: '239.99', size: '2', rpi_size: '0.5' },
    ])
  })
})

describe('rejected rows', () => {
  it('are kept once each, with their text and how often they came', async () => {
    const { db } = test.database
    const request = { operation: 'fills', parameters: { symbol: 'BTCUSDT' } }
    const row = rejectedRow(request, 'price: not a number', '{"price":1.50e}')
    const other = rejectedRow(request, 'price: not a number', '{"price":"\0"}')
    expect(await insertRejectedRows(db, [row, row, other], someTime)).toEqual({ inserted: 2, updated: 0 })
    expect(await insertRejectedRows(db, [row], someTime)).toEqual({ inserted: 0, updated: 0 })
    expect(await insertRejectedRows(db, [row], someTime + 5)).toEqual({ inserted: 0, updated: 1 })
    const stored = await db.selectFrom('recorder.rejected_row').selectAll().orderBy('times_seen').execute()
    expect(stored).toMatchObject([
      { raw: '{"price":"\u{fffd}"}', times_seen: 1 },
      {
        operation: 'fills',
        parameters: { symbol: 'BTCUSDT' },
        reason: row.reason,
        raw: row.raw,
        raw_bytes: row.raw.length,
        first_seen_at: someTime,
        last_seen_at: someTime + 5,
        times_seen: 2,
      },
    ])
  })

  it('are kept up to a bound for an hour; those that are there go on being counted', async () => {
    const { db } = test.database
    const request = { operation: 'tickers', parameters: {} }
    const many = Array.from({ length: 1_400 }, (_, i) => rejectedRow(request, 'broken', `{"row":${i}}`))
    const [first, later] = [someTime + 10 * 3_600_000, someTime + 11 * 3_600_000]
    await insertRejectedRows(db, many, first)
    const count = async () => {
      const { rows } = await sql<{ rows: string; seen: string }>`
        select count(*) as rows, sum(times_seen) as seen from recorder.rejected_row where operation = 'tickers'`.execute(
        db,
      )
      return rows.map((row) => [Number(row.rows), Number(row.seen)])
    }
    expect(await count()).toEqual([[1_000, 1_000]])
    await insertRejectedRows(db, many.slice(0, 1_200), first + 1)
    expect(await count()).toEqual([[1_000, 2_000]])
    await insertRejectedRows(db, many.slice(1_200), later + 1)
    expect(await count()).toEqual([[1_200, 2_200]])
  })

  it('hold the start of their text, its digest and its length, cut between two characters', async () => {
    const text = `"${'ä€🎲'.repeat(5_000)}"`
    const row = rejectedRow({ operation: 'fills', parameters: {} }, 'too long', text)
    expect(Buffer.byteLength(row.raw)).toBeGreaterThan(4_092)
    expect(Buffer.byteLength(row.raw)).toBeLessThanOrEqual(4_096)
    expect(text.startsWith(row.raw)).toBe(true)
    expect(row.rawBytes).toBe(Buffer.byteLength(text))
    expect(row.rawSha256).toBe(createHash('sha256').update(text).digest('hex'))
  })
})
