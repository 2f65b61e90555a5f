import { afterAll, beforeAll, expect, test } from 'vitest'
import { futuresCalls } from '../../../src/exchange/formats/futures.js'
import { instrumentFormat } from '../../../src/exchange/formats/instruments.js'
import { tickerFormat } from '../../../src/exchange/formats/quotes.js'
import { type Format, readRows } from '../../../src/exchange/formats/rows.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { fieldStreams, type StreamName, streamTraits } from '../../../src/market/stream.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const category = 'USDT-FUTURES'
const at = 1_760_000_000_000
/** The ends of what columns and formats can hold, and one beyond each. */
const extremes = [
  ...[31, 53, 63].flatMap((bits) => [2n ** BigInt(bits) - 1n, 2n ** BigInt(bits)].flatMap((end) => [end, -end])),
  '0',
  '1e-37',
  '9'.repeat(38),
  `-${'9'.repeat(38)}`,
  `0.${'1'.repeat(38)}`,
  '253402300799999',
].map(String)

type Tested = readonly [StreamName, Format<never, object>]
const tested = (stream: StreamName, format: unknown): Tested => [stream, format as Format<never, object>]
const futuresFormats = fieldStreams.flatMap((stream) =>
  Object.values(futuresCalls)
    .filter(({ operation }) => operation === streamTraits[stream].operation)
    .map(({ format }) => tested(stream, format)),
)

test.each([tested('instruments', instrumentFormat), tested('tickers', tickerFormat), ...futuresFormats])(
  'what the format of %s admits, its table takes',
  async (stream, format) => {
    const names = [...(format.fields ?? [])].filter((name) => !['category', 'symbol', 'side'].includes(name))
    const valueOf = (name: string) => (name === 'ts' || name.endsWith('Timestamp') ? String(at) : '1')
    const ordinary = { ...Object.fromEntries(names.map((name) => [name, valueOf(name)])), category, side: 'buy' }
    const spoilt = names.flatMap((name) => extremes.map((extreme) => ({ ...ordinary, [name]: extreme })))
    const wire = spoilt.map((row, index) => Buffer.from(JSON.stringify({ ...row, symbol: `S${index}USDT` })))
    const request = { operation: stream, parameters: {}, query: { category } as never, requestTime: at, receivedAt: at }
    const read = await readRows(format, { rows: wire, requestTime: at }, request)
    const rows = read.rows.map((row) => (stream === 'liquidations' ? { ...row, occurrence: 1 } : row))
    expect(rows.length).toBeGreaterThan(names.length)
    const { db } = database.database
    const { rejected } = await storeBatch(db, batchOf(stream, { category, symbol: 'BTCUSDT' }, rows, at))
    const reasons = await db.selectFrom('recorder.rejected_row').select('reason').distinct().execute()
    expect({ rejected, reasons }).toEqual({ rejected: 0, reasons: [] })
  },
)
