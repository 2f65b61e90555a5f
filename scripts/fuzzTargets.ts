import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { stringify } from 'yaml'
import { BatchSpool } from '../src/collect/sink/batchSpool.js'
import { ConfigError, loadConfig } from '../src/config.js'
import { readAnswer } from '../src/exchange/answer.js'
import { orderBookRow, rpiOrderBookRow } from '../src/exchange/bookSchemas.js'
import { ExchangeError } from '../src/exchange/errors.js'
import { readRows, type RowSchema } from '../src/exchange/rows.js'
import { candleRow, fillRow, instrumentRow, rpiSymbolRow, tickerRow } from '../src/exchange/rowSchemas.js'
import { type Operation, operations } from '../src/market/operation.js'
import { BadRequest } from '../src/serve/api/badRequest.js'
import { readParameters } from '../src/serve/api/parameters.js'
import { queries } from '../src/serve/api/queries.js'
import { recordHeader, scanRecords } from '../src/store/spool/records.js'

export interface FuzzTarget {
  readonly name: string
  /** Makes one random input, and what gives it to the program: that rejects with what is a mistake of the program's. */
  prepare(seed: number): () => Promise<'taken' | 'refused'>
  close?(): Promise<void>
}

export async function fuzzTargets(folder: string): Promise<readonly FuzzTarget[]> {
  return [
    { name: 'responses', prepare: fuzzResponse },
    await spoolTarget(folder),
    { name: 'API', prepare: fuzzApi },
    configTarget(folder),
  ]
}

function one<T>(arbitrary: fc.Arbitrary<T>, seed: number): T {
  const [value] = fc.sample(arbitrary, { numRuns: 1, seed })
  return value as T
}

const reader =
  <Row>(schema: RowSchema<Row>) =>
  (values: readonly unknown[], operation: Operation, parameters: Readonly<Record<string, string>>) =>
    readRows(schema, values, operation, parameters)
const readers: Readonly<Record<Operation, ReturnType<typeof reader>>> = {
  instruments: reader(instrumentRow),
  tickers: reader(tickerRow),
  'rpi-symbols': reader(rpiSymbolRow),
  orderbook: reader(orderBookRow),
  'rpi-orderbook': reader(rpiOrderBookRow),
  fills: reader(fillRow),
  candles: reader(candleRow),
  'history-candles': reader(candleRow),
}

const nastyText = fc.string({
  unit: fc.oneof(
    { weight: 5, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
    fc.constantFrom('\u0000', '\u001b', '\u202e', '\ud800', '"', '\\', ',', '[', '{', '龙'),
  ),
  maxLength: 40,
})
const nastyNumber = fc.constantFrom('0', '-0', '1e999', '-1e-999', '9'.repeat(5_000), '1.50', '253402300800000')
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
const row = fc.oneof(
  fc.array(fc.tuple(name, field), { maxLength: 15 }).map((all) => objectText(all)),
  fc.array(field, { maxLength: 9 }).map((all) => `[${all.join(',')}]`),
  field,
)
const objectText = (all: readonly (readonly [string, string])[]) =>
  `{${all.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`
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
      `{"code":"${code}","msg":"success","requestTime":1760000000000,"data":${isObject ? `{"a":[${data}],"b":[],"ts":"1"}` : `[${data}]`}}`,
  )
/** Bytes that are changed: in most inputs none. */
const cuts = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }),
)

function broken(bytes: Buffer, changes: readonly (readonly [number, number])[]): Buffer {
  const copy = Buffer.from(bytes)
  for (const [at, byte] of changes) if (copy.length > 0) copy[Math.floor(at * (copy.length - 1))] = byte
  return copy
}

function fuzzResponse(seed: number): () => Promise<'taken' | 'refused'> {
  const [text, changes, operation, status] = one(
    fc.tuple(envelope, cuts, fc.constantFrom(...operations), fc.constantFrom(200, 200, 400)),
    seed,
  )
  const body = broken(Buffer.from(text), changes)
  const parameters = { category: 'SPOT', symbol: 'BTCUSDT' }
  return async () => {
    try {
      const raw = { status, body, remaining: undefined, retryAfterMs: undefined, location: undefined }
      const answer = await readAnswer({ operation, parameters }, raw)
      const read = await readers[operation](answer.rows, operation, parameters)
      // It has to fit into the spool.
      JSON.stringify(read.rows.slice(0, 1_000))
      return 'taken'
    } catch (error) {
      if (error instanceof ExchangeError) return 'refused'
      throw error
    }
  }
}

async function spoolTarget(folder: string): Promise<FuzzTarget> {
  let damaged = 0
  const root = join(folder, 'spool')
  const spool = await BatchSpool.open({ root, maxBytes: 16_777_216, onDamage: () => void (damaged += 1) })
  return {
    name: 'spool',
    prepare(seed) {
      const [bodies, changes, isBomb] = one(
        fc.tuple(
          fc.array(fc.oneof(fc.uint8Array({ maxLength: 500 }), fc.jsonValue()), { maxLength: 10 }),
          cuts,
          fc.nat(200),
        ),
        seed,
      )
      const records = bodies.map((body) =>
        body instanceof Uint8Array ? body : deflateRawSync(JSON.stringify(body) ?? ''),
      )
      if (isBomb === 0) records.push(deflateRawSync(Buffer.alloc(150_000_000)))
      const written = Buffer.concat(records.flatMap((body) => [recordHeader(body), body]))
      const bytes = broken(written, changes)
      return async () => {
        const before = damaged
        const scanned = scanRecords(bytes)
        for (const record of scanned.records) await spool.decode(Buffer.from(record))
        return scanned.damagedStretches > 0 || damaged > before ? 'refused' : 'taken'
      }
    },
    close: () => spool.close(),
  }
}

function fuzzApi(seed: number): () => Promise<'taken' | 'refused'> {
  const parameter = fc.oneof(
    fc.constantFrom(
      'category',
      'symbol',
      'limit',
      'before',
      'from',
      'to',
      'search',
      'interval',
      'days',
      'offset',
      'stream',
    ),
    nastyText,
  )
  const value = fc.oneof(
    nastyText,
    nastyNumber,
    fc.constantFrom('SPOT', 'BTCUSDT', '1m', 'NaN', '-1', '', '1e3', 'fills'),
  )
  const [query, given] = one(
    fc.tuple(fc.constantFrom(...Object.values(queries)), fc.dictionary(parameter, value, { maxKeys: 8 })),
    seed,
  )
  return async () => {
    try {
      const read = readParameters(query, given)
      // What gets through must be something that the database can take.
      if (/\0|\p{Surrogate}/u.test(JSON.stringify(Object.values(read)).replaceAll('\\u0000', '\0')))
        throw new Error(`let through: ${JSON.stringify(read)}`)
      return await Promise.resolve('taken')
    } catch (error) {
      if (error instanceof BadRequest) return 'refused'
      throw error
    }
  }
}

function configTarget(folder: string): FuzzTarget {
  const file = join(folder, 'fuzz.yaml')
  const section = fc.constantFrom('database', 'exchange', 'collector', 'streams', 'storage', 'serve', 'log')
  const option = fc.oneof(
    fc.constantFrom('port', 'host', 'select', 'tickers', 'schedule', 'limits', 'retry', 'url'),
    nastyText,
  )
  const leaf = fc.oneof(
    nastyText,
    fc.double(),
    fc.integer(),
    fc.jsonValue(),
    fc.constantFrom('*/5 * * * * *', '127.0.0.1'),
  )
  const tree = fc.dictionary(
    fc.oneof(section, nastyText),
    fc.oneof(leaf, fc.dictionary(option, fc.oneof(leaf, fc.dictionary(option, leaf)))),
  )
  const text = fc.oneof(
    tree.map((value) => stringify(value)),
    fc.tuple(tree, cuts).map(([value, changes]) => broken(Buffer.from(stringify(value)), changes)),
    nastyText,
    fc.constantFrom(
      'a: &a [*a]\n',
      `a: ${'['.repeat(5_000)}`,
      `x: &x ["${'y'.repeat(9)}"]\n${'- *x\n'.repeat(999)}`,
      '--- !!js/function x',
    ),
  )
  return {
    name: 'configuration',
    prepare: (seed) => {
      const written = one(text, seed)
      return async () => {
        await writeFile(file, written)
        try {
          loadConfig({ file, env: {} })
          return 'taken'
        } catch (error) {
          if (error instanceof ConfigError) return 'refused'
          throw error
        }
      }
    },
  }
}
