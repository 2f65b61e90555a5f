import fc from 'fast-check'
import { readResponse, type ServiceResponse } from '../src/exchange/response.js'
import { candleFormat, fillFormat, pastFillFormat } from '../src/exchange/formats/trades.js'
import type { Format } from '../src/exchange/formats/rows.js'
import { futuresCalls } from '../src/exchange/formats/futures.js'
import { instrumentFormat, rpiSymbolFormat } from '../src/exchange/formats/instruments.js'
import { orderBookFormat, rpiOrderBookFormat, tickerFormat } from '../src/exchange/formats/quotes.js'
import { readRows } from '../src/exchange/formats/rows.js'
import { ExchangeError } from '../src/exchange/errors.js'
import { type Operation, operations } from '../src/market/operation.js'
import { oneLine } from '../src/market/oneLine.js'
import { broken, cuts, nastyNumber, nastyText, one } from './fuzzInputs.js'

const query = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const futures = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const reader =
  <Query, Row, Wire>(format: Format<Query, Row, Wire>, query: Query) =>
  (response: ServiceResponse, operation: Operation, parameters: Readonly<Record<string, string>>) =>
    readRows(format, response, { operation, parameters, query, requestTime: 1_760_000_000_000, receivedAt: 0 })
const candles = reader(candleFormat, { ...query, interval: '1m' })
const readers: Partial<Record<Operation, ReturnType<typeof reader>>> = {
  instruments: reader(instrumentFormat, query),
  tickers: reader(tickerFormat, query),
  'rpi-symbols': reader(rpiSymbolFormat, {}),
  orderbook: reader(orderBookFormat, { ...query, limit: 50 }),
  'rpi-orderbook': reader(rpiOrderBookFormat, { ...query, limit: 50 }),
  fills: reader(fillFormat, query),
  candles,
  'history-candles': candles,
  'futures-fills-history': reader(pastFillFormat, query),
  'spot-fills-history': reader(pastFillFormat, query),
}
for (const { operation, format } of Object.values(futuresCalls))
  readers[operation] = reader(format as Format<object, unknown>, futures)

const field = fc.oneof(
  nastyText.map((text) => JSON.stringify(text)),
  nastyNumber,
  nastyNumber.map((text) => `"${text}"`),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.constantFrom('null', '""', 'true', '[[1,2]]', '"BTCUSDT"', '"SPOT"', '"buy"', '"1760000000000"'),
)
const names = [
  'symbol',
  'category',
  'ts',
  'price',
  'size',
  'side',
  'execId',
  'a',
  'b',
  '__proto__',
  'lastPrice',
  'status',
]
const name = fc.oneof(fc.constantFrom(...names), nastyText)
const objectText = (all: readonly (readonly [string, string])[]) =>
  `{${all.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`
/** Fields that every operation accepts. Random fields come after them and may replace them. */
const soundCandle: readonly string[] = ['"1760000000000"', '"1"', '2', '"1"', '"1.5"', '0', '1e2']
const soundFields: readonly (readonly [string, string])[] = [
  ['category', '"SPOT"'],
  ['symbol', '"BTCUSDT"'],
  ['execId', '"1"'],
  ['tradeId', '"1"'],
  ['price', '"1.50"'],
  ['size', '2'],
  ['side', '"buy"'],
  ['ts', '"1760000000000"'],
]
const row = fc.oneof(
  fc.array(fc.tuple(name, field), { maxLength: 3 }).map((all) => objectText([...soundFields, ...all])),
  fc
    .array(fc.tuple(fc.nat(soundCandle.length - 1), field), { maxLength: 2 })
    .map((changes) => changes.reduce((candle, [at, value]) => candle.with(at, value), soundCandle))
    .map((candle) => `[${candle.join(',')}]`),
  fc.array(fc.tuple(name, field), { maxLength: 15 }).map((all) => objectText(all)),
  fc.array(field, { maxLength: 9 }).map((all) => `[${all.join(',')}]`),
  field,
)
/** Now and then very many of the same. */
const rows = fc
  .tuple(
    fc.array(row, { maxLength: 8 }),
    fc.oneof(
      { weight: 60, arbitrary: fc.constant(1) },
      { weight: 3, arbitrary: fc.constant(100) },
      fc.constant(20_000),
    ),
  )
  .map(([all, times]) => {
    const text = all.length === 0 ? '{}' : all.join(',')
    const most = Math.max(1, Math.min(times, Math.floor(6_000_000 / Math.max(1, text.length))))
    return Array.from({ length: most }, () => text).join(',')
  })
const envelope = fc
  .tuple(rows, fc.constantFrom('00000', '00000', '00000', '00000', '00000', '40034'), fc.boolean())
  .map(
    ([data, code, isObject]) =>
      `{"code":"${code}","msg":"success","requestTime":1760000000000,"data":${isObject ? `{"a":[${data}],"b":[],"ts":"1760000000000"}` : `[${data}]`}}`,
  )
export function fuzzResponse(seed: number): () => Promise<'taken' | 'refused'> {
  const [text, changes, operation, status] = one(
    fc.tuple(envelope, cuts, fc.constantFrom(...operations), fc.constantFrom(200, 200, 400)),
    seed,
  )
  const body = broken(Buffer.from(text), changes)
  const parameters = { category: 'SPOT', symbol: 'BTCUSDT' }
  return async () => {
    try {
      const raw = { status, body, remaining: undefined, retryAfterMs: undefined, location: undefined }
      const response = readResponse(oneLine, { operation, parameters }, raw)
      const read = await readers[operation]?.(response, operation, parameters)
      if (read === undefined) throw new Error(`nothing reads ${operation}`)
      // It has to fit into the spool.
      JSON.stringify(read.rows.slice(0, 1_000))
      return 'taken'
    } catch (error) {
      if (error instanceof ExchangeError) return 'refused'
      throw error
    }
  }
}
