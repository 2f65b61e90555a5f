import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { stringify } from 'yaml'
import { Spool } from '../src/collect/queue/spool.js'
import { ConfigError } from '../src/config/configError.js'
import { loadConfig } from '../src/config/resolve.js'
import { queries, wrongParameters } from '../src/serve/api/parameters.js'
import { recordHeader, scanRecords } from '../src/collect/queue/segmentWriter.js'
import { httpTarget } from './fuzzHttp.js'
import { broken, cuts, type FuzzTarget, nastyNumber, nastyText, one } from './fuzzInputs.js'
import { fuzzResponse } from './fuzzResponses.js'
import { systemClock } from '../src/runtime/clock.js'
import { systemDisk } from '../src/runtime/disk.js'

export async function fuzzTargets(folder: string): Promise<readonly FuzzTarget[]> {
  return [
    { name: 'responses', prepare: fuzzResponse },
    await httpTarget(),
    await spoolTarget(folder),
    { name: 'API', prepare: fuzzApi },
    configTarget(folder),
  ]
}

async function spoolTarget(folder: string): Promise<FuzzTarget> {
  let damaged = 0
  const bomb = deflateRawSync(Buffer.alloc(150_000_000), { level: 1 })
  const input = fc.tuple(
    fc.array(fc.oneof(fc.uint8Array({ maxLength: 500 }), fc.jsonValue()), { maxLength: 10 }),
    cuts,
    fc.nat(200),
  )
  const root = join(folder, 'spool')
  const nothing = () => undefined
  const reports = {
    serviceNow: () => null,
    onDamage: () => void (damaged += 1),
    onDropped: nothing,
    onSetAside: nothing,
  }
  const spool = await Spool.open({ root, maxBytes: 16_777_216, clock: systemClock, disk: systemDisk, ...reports })
  return {
    name: 'spool',
    prepare(seed) {
      const [bodies, changes, isBomb] = one(input, seed)
      const records = bodies.map((body) =>
        body instanceof Uint8Array ? body : deflateRawSync(JSON.stringify(body) ?? ''),
      )
      if (isBomb === 0) records.push(bomb)
      const written = Buffer.concat(records.flatMap((body) => [recordHeader(body), body]))
      const bytes = broken(written, changes)
      return async () => {
        const before = damaged
        const scanned = scanRecords(bytes)
        for (const record of scanned.records) await spool.unpack(Buffer.from(record))
        return scanned.damagedStretches > 0 || damaged > before ? 'refused' : 'taken'
      }
    },
    close: () => spool.close(),
  }
}

const apiParameter = fc.oneof(
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
const apiValue = fc.oneof(
  nastyText,
  nastyNumber,
  fc.constantFrom('SPOT', 'BTCUSDT', '1m', 'NaN', '-1', '', '1e3', 'fills'),
)
const apiInput = fc.tuple(
  fc.constantFrom(...Object.values(queries)),
  fc.dictionary(apiParameter, apiValue, { maxKeys: 8 }),
)

function fuzzApi(seed: number): () => Promise<'taken' | 'refused'> {
  const [query, given] = one(apiInput, seed)
  return () => {
    const read = query.safeParse(given)
    if (!read.success) {
      if (wrongParameters(read.error.issues, given).includes('\n')) throw new Error('refused in more than one line')
      return Promise.resolve('refused')
    }
    // The database must be able to store every value that is let through.
    if (/\0|\p{Surrogate}/u.test(JSON.stringify(Object.values(read.data)).replaceAll('\\u0000', '\0')))
      throw new Error(`let through: ${JSON.stringify(read.data)}`)
    return Promise.resolve('taken')
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
