import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { openQueue } from '../../../src/collect/queue/openQueue.js'
import { Spool } from '../../../src/collect/queue/spool.js'
import { claimSegments } from '../../../src/collect/queue/spoolFolders.js'
import { createStats } from '../../../src/collect/streams/stream.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { readIdentity, SameDatabase } from '../../../src/db/identity.js'
import { requireService } from '../../../src/prepareStore.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { createMetrics } from '../../../src/runtime/metrics.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { fills } from '../../support/queueUnderTest.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

type Belonging = Awaited<ReturnType<typeof requireService>>

const base = temporaryFolder('spool-folders')
const service = 'https://api.example.com'
const otherService = 'https://api.example.com/~other'
const logger = createLogger('silent')
let database: TestDatabase
let other: TestDatabase
let count = 0
let dataDir: string

beforeAll(async () => {
  database = await createTestDatabase()
  other = await createTestDatabase()
})
afterAll(async () => {
  await database.drop()
  await other.drop()
})
beforeEach(async () => {
  dataDir = join(base, String(++count))
  await mkdir(dataDir)
  for (const { database: one } of [database, other])
    await one.pool.query('truncate recorder.service, market.fills, market.candles, recorder.ledger, recorder.lease')
})

const configOf = (baseUrl: string) => {
  const config = loadConfig({ env: { EXCHANGE_BASE_URL: baseUrl } })
  config.database.dataDir = dataDir
  return config
}
const identify = (of: TestDatabase, baseUrl: string, options = {}): Promise<Belonging> =>
  requireService(of, configOf(baseUrl), logger, options)

interface Opening {
  readonly baseUrl?: string
  readonly into?: TestDatabase
  /** What the database turns out to be; null: it is away. */
  readonly belonging: Belonging
  readonly takesOthers?: boolean
}

/** A recorder's queue, and the lines that its start logs. */
async function open({ baseUrl = service, into = database, takesOthers = false, ...given }: Opening) {
  const lines: string[] = []
  const told = pino(
    { base: null },
    { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) },
  )
  let belonging = given.belonging
  const storing = await openQueue({
    config: configOf(baseUrl),
    url: into.url,
    clock: systemClock,
    serviceNow: () => null,
    disk: systemDisk,
    logger: told,
    stats: createStats(),
    incidents: new Incidents(logger, systemClock),
    metrics: createMetrics({ version: 'test' }),
    gate: {
      get belonging() {
        return belonging
      },
      async mayStore() {
        if (belonging === null) throw new Error('the database is away')
      },
    },
    same: new SameDatabase(),
    takesOthers,
  })
  const close = (withinMs = 10_000) => storing.close(withinMs)
  return { storing, lines, close, becomes: (known: Belonging) => (belonging = known) }
}

/** Leaves two responses on the disk, for a service and a database that may be known. */
async function leave(baseUrl: string, belonging: Belonging, index: number): Promise<void> {
  const { storing, close, becomes } = await open({ baseUrl, belonging })
  becomes(null)
  await storing.queue.write(fills(index))
  await close(0)
}
const storedIn = async ({ database: { pool } }: TestDatabase) =>
  (await pool.query<{ id: string }>('select exec_id as id from market.fills order by ts')).rows.map(({ id }) =>
    Number(id),
  )
const left = async () =>
  (await readdir(join(dataDir, 'spool'), { recursive: true })).filter((name) => name.endsWith('.seg'))
const isEmpty = () => vi.waitFor(async () => expect(await left()).toEqual([]), { timeout: 120_000, interval: 50 })
const theirs = (lines: readonly string[]) => lines.filter((line) => line.startsWith('responses in '))

describe('what waits on the disk', () => {
  const kept = {
    'no database, this service': () => leave(service, null, 1),
    'no database, another service': () => leave(otherService, null, 1),
    'another database, this service': async () => leave(service, await identify(other, service), 1),
  }
  type Kept = keyof typeof kept
  const states = {
    new: async () => undefined,
    'of this service': async () => void (await identify(database, service)),
    'a copy of the other one': async () => {
      await identify(database, service)
      const { id, places } = await readIdentity(other.database.db).catch(() => ({ id: null, places: null }))
      if (id !== null)
        await database.database.pool.query('update recorder.service set id = $1, places = $2', [id, places])
    },
  }
  type State = keyof typeof states
  const expectations: readonly (readonly [Kept, State, readonly number[], RegExp | null])[] = [
    ['no database, this service', 'new', [0, 1], null],
    ['no database, this service', 'of this service', [0, 1], null],
    ['no database, this service', 'a copy of the other one', [0, 1], null],
    [
      'no database, another service',
      'new',
      [],
      /are of api\.example\.com\/~other; they are left there: .*start a recorder of that service/,
    ],
    ['no database, another service', 'of this service', [], /are of api\.example\.com\/~other/],
    ['no database, another service', 'a copy of the other one', [], /are of api\.example\.com\/~other/],
    ['another database, this service', 'new', [], /are for another database; they are left there: .*--adopt/],
    ['another database, this service', 'of this service', [], /are for another database/],
    [
      'another database, this service',
      'a copy of the other one',
      [],
      /the database that this one is a copy of; .*--adopt/,
    ],
  ]
  test.each(expectations)('for %s, where the database is %s', async (what, state, stored, line) => {
    await kept[what]()
    await states[state]()
    const { lines, close } = await open({ belonging: await identify(database, service) })
    if (line === null) await isEmpty()
    await close()
    expect(await storedIn(database)).toEqual(stored)
    expect(theirs(lines)).toEqual(line === null ? [] : [expect.stringMatching(line)])
    expect(await left()).toHaveLength(line === null ? 0 : 1)
  })
})

test('a start without the database takes nothing of another service, and its own is for the first database alone', async () => {
  await leave(otherService, null, 1)
  const { storing, lines, close, becomes } = await open({ belonging: null })
  await storing.queue.write(fills(5))
  await close(0)
  expect(theirs(lines)).toHaveLength(1)
  becomes(null)

  const again = await open({ belonging: null })
  await again.storing.queue.write(fills(6))
  // The database comes, but takes nothing yet. Then another one is configured.
  const known = await identify(database, service)
  again.becomes(known)
  await again.storing.claimOrphans()
  again.becomes(null)
  await again.storing.queue.write(fills(7))
  await again.close(0)
  await database.database.pool.query('truncate market.fills, recorder.ledger')
  const elsewhere = await open({ into: other, belonging: await identify(other, service) })
  await elsewhere.close()
  expect(await storedIn(other)).toEqual([])
  expect(theirs(elsewhere.lines)).toHaveLength(2)
  const home = await open({ belonging: await identify(database, service) })
  await vi.waitFor(async () => expect(await left()).toHaveLength(1), { timeout: 120_000, interval: 50 })
  await home.close()
  expect(await storedIn(database)).toEqual([4, 5, 6, 7])
})

test('a copy becomes the heir when it is told to, and what waits for the first one is stored in it', async () => {
  const first = await identify(other, service)
  await leave(service, first, 1)
  await identify(database, service)
  const { id, places } = first?.database ?? { id: '', places: [] }
  await database.database.pool.query('update recorder.service set id = $1, places = $2', [id, places])
  const { lines, close } = await open({
    belonging: await identify(database, service, { becomesHeir: true }),
    takesOthers: true,
  })
  await isEmpty()
  await close()
  expect(theirs(lines)).toEqual([])
  expect(await storedIn(database)).toEqual([0, 1])
  // From now on it is the heir, without being told.
  await leave(service, first, 3)
  const next = await open({ belonging: await identify(database, service) })
  await isEmpty()
  await next.close()
  expect(await storedIn(database)).toEqual([0, 1, 2, 3])
})

test('a service that has moved keeps what waits for it', async () => {
  await identify(database, service)
  await database.database.pool.query(
    `insert into market.rpi_symbols (category, symbol, valid_from) values ('SPOT', 'BTCUSDT', now())`,
  )
  await leave(service, null, 1)
  await leave(service, await identify(database, service), 2)
  const moved = await identify(database, otherService, { accept: true })
  const { lines, close } = await open({ baseUrl: otherService, belonging: moved })
  await isEmpty()
  await close()
  expect(theirs(lines)).toEqual([])
  expect(await storedIn(database)).toEqual([0, 1, 2])
  await database.database.pool.query('truncate market.rpi_symbols')
})

test('what lies beside the folders is left there, and a line says where to move it', async () => {
  const nothing = () => undefined
  const reports = { serviceNow: () => null, onDamage: nothing, onDropped: nothing, onSetAside: nothing }
  const root = join(dataDir, 'spool')
  const spool = await Spool.open({ root, maxBytes: 1_000_000, clock: systemClock, disk: systemDisk, ...reports })
  await spool.append(fills(1))
  await spool.close()
  const { lines, close } = await open({ belonging: await identify(database, service) })
  await close()
  expect(await storedIn(database)).toEqual([])
  const [line = '', ...more] = theirs(lines)
  expect(more).toEqual([])
  const target = /earlier version; to store them in this database, move them to (.+)$/.exec(line)?.[1] ?? ''
  for (const name of await left()) await rename(join(root, name), join(target, name))
  const next = await open({ belonging: await identify(database, service) })
  await isEmpty()
  await next.close()
  expect(await storedIn(database)).toEqual([0, 1])
})

describe('a folder of a recorder that did not know its database', () => {
  const unknown = 'api.example.com~unknown~1-of-before-00000000'
  const of = () => join(dataDir, 'spool', unknown)
  const claim = async (disk = systemDisk) => {
    const own = (await identify(database, service))?.database ?? null
    const root = join(dataDir, 'spool')
    const options = { services: ['api.example.com'], own, takesOthers: false, disk }
    return claimSegments({ root, folder: 'api.example.com~id~place', ...options })
  }
  beforeEach(async () => {
    const nothing = () => undefined
    const reports = { serviceNow: () => null, onDamage: nothing, onDropped: nothing, onSetAside: nothing }
    const spool = await Spool.open({
      root: of(),
      maxBytes: 1_000_000,
      clock: systemClock,
      disk: systemDisk,
      ...reports,
    })
    await spool.append(fills(1))
    await spool.close()
  })

  test('may be taken over by two recorders at once', async () => {
    const rename = async (from: string, to: string) => {
      await systemDisk.rename(from, to)
      await systemDisk.rename(from, to)
    }
    expect(await claim({ ...systemDisk, rename })).toEqual([])
    expect(await left()).toHaveLength(1)
  })

  test('keeps its note for as long as something is in it', async () => {
    const { id = '', place = '' } = (await identify(database, service))?.database ?? {}
    await writeFile(join(of(), 'database.json'), JSON.stringify({ id, place }))
    await writeFile(join(of(), 'damaged.unreadable'), '')
    await claim()
    expect((await readdir(of())).toSorted()).toEqual(['damaged.unreadable', 'database.json'])
  })
})
