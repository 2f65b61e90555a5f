import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { streamNames } from '../../src/market/stream.js'
import type { Status } from '../../src/serve/api/contract.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { compareGaps } from '../chaos/compareGaps.js'
import { compareTables } from '../chaos/compareTables.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { type Running, startProgram } from '../support/program.js'
import { shiftedClock } from '../support/shiftedClock.js'
import { storeSpooled } from '../support/storeSpooled.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const settleMs = 5_000
const candleTypes = ['market', 'mark', 'index', 'premium'] as const

/** How far the clock of the machine is ahead. */
const machines: readonly (readonly [what: string, aheadMs: number])[] = [
  ['8 h behind', -8 * hourMs],
  ['15 min behind', -15 * minuteMs],
  ['15 min ahead', 15 * minuteMs],
  ['8 h ahead', 8 * hourMs],
  ['a day ahead', 23.9 * hourMs],
]

interface Recording {
  /** Where its requests come from, which tells the recorders apart. */
  readonly address: string
  readonly database: TestDatabase
  readonly program: Running
  readonly url: string
  readonly dataDir: string
}

const patience = { timeout: 1_200_000, interval: 2_000 }
let folder: string
let hidden = { from: 0, to: 0 }
let simulator: Simulator
const recordings = new Map<string, Recording>()
const watched = new Map<string, ReturnType<typeof watch>>()

async function startRecording(what: string, aheadMs: number, place: number): Promise<void> {
  const address = `127.0.0.${10 + place}`
  const database = await createTestDatabase()
  const dataDir = join(folder, what)
  const config = join(folder, `${what}.json`)
  const select = { minTurnover24h: '1', symbols: ['BTC*'] }
  const streams = {
    instruments: { schedule: '*/30 * * * * *' },
    orderBooks: { everySeconds: 10, select },
    rpiOrderBooks: { everySeconds: 20 },
    fills: { maxPollSeconds: 10, select },
    candles: { types: candleTypes, select },
    positioning: { enabled: true },
    futuresTerms: { enabled: true },
  }
  const settings = {
    database: { dataDir },
    collector: { egress: what, allowOverload: true },
    exchange: { localAddress: address },
    streams,
    serve: { port: 0 },
  }
  await writeFile(config, JSON.stringify(settings))
  const program = startProgram(['start', '--wait', '--config', config], {
    DATABASE_URL: database.url,
    EXCHANGE_BASE_URL: simulator.url,
    ...shiftedClock(aheadMs),
  })
  const [, url = ''] = await program.printed(/the page is at (http:[^\s"]+)/)
  recordings.set(what, { address, database, program, url, dataDir })
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-clock-'))
  simulator = await startSimulator({ scale: 'tiny', journal: true })
  await Promise.all(machines.map((machine, place) => startRecording(...machine, place)))
  const recorded = async ({ database }: Recording) => {
    const { pool } = database.database
    return (await pool.query(`select from market.fills where category = 'SPOT' and symbol = 'BTCUSDT' limit 1`))
      .rowCount
  }
  for (const one of recordings.values()) await vi.waitFor(async () => expect(await recorded(one)).toBe(1), patience)
  // Never shown: only the candle of the minute tells of them. A quiet market may have none to hide in a minute.
  do {
    const minute = (Math.floor(Date.now() / minuteMs) + 1) * minuteMs
    hidden = { from: minute + 15_000, to: minute + 40_000 }
    simulator.control.setQuirks({ hiddenFills: [{ category: 'SPOT', symbol: 'BTCUSDT', ...hidden }] })
    await sleep(hidden.to - Date.now() + 1_000)
  } while (simulator.world.fills('SPOT', 'BTCUSDT', hidden.from, hidden.to).length === 0)
  for (const [what, recording] of recordings) {
    const watching = watch(recording)
    // The test of this machine reports it.
    watching.catch(() => undefined)
    watched.set(what, watching)
  }
}, 3_600_000)

afterAll(async () => {
  for (const { program, database } of recordings.values()) {
    program.process.kill('SIGKILL')
    await program.finished
    await database.drop()
  }
  await simulator.close()
  await rm(folder, { recursive: true, force: true })
})

/** Streams that have stored nothing since they had so many rows, or that cover nothing. */
async function lacking(
  { url, database }: Recording,
  since: ReadonlyMap<string, number> = new Map(),
): Promise<string[]> {
  const { streams } = await statusOf(url)
  expect(streams.map(({ name }) => name).toSorted()).toEqual([...streamNames].toSorted())
  const bad = streams.filter(({ name, rowsWritten, targets }) => rowsWritten <= (since.get(name) ?? 0) || targets === 0)
  const { rows } = await database.database.pool.query<{ type: string }>('select distinct type from market.candles')
  const found = new Set(rows.map(({ type }) => type))
  return [...bad.map(({ name }) => name), ...candleTypes.filter((type) => !found.has(type))]
}

const statusOf = async (url: string) => (await (await fetch(`${url}/api/status`)).json()) as Status

/** Candles that are claimed and not stored, and not left out as silence, by series. */
const unfounded = `
  select k.category, k.symbol, k.type, k.interval, g.at from recorder.ledger k
  cross join lateral unnest(k.ranges) r
  cross join lateral generate_series(lower(r), upper(r) - interval '1 minute', interval '1 minute') as g (at)
  where k.stream = 'candles' and k.verdict = 'recorded' and k.interval = '1m'
    and not exists (select from market.candles c where (c.category, c.symbol, c.type, c.interval::text, c.open_time)
      = (k.category, k.symbol, k.type::market.candle_type, k.interval, g.at) and c.is_closed)
    and not exists (select from recorder.ledger s
      where (s.stream, s.category, s.symbol, s.type, s.interval) = ('candles', k.category, k.symbol, k.type, k.interval)
        and s.verdict in ('silent', 'no trade') and s.ranges @> g.at)`

/** Claims that end in the future, and what is lost of streams that can be requested again. */
const ahead = `
  select verdict, stream, symbol, type, ranges from recorder.ledger
  where verdict = 'lost' and stream not like '%order_books' or not isempty(ranges) and upper(ranges) > to_timestamp($1)
    and verdict in ('recorded', 'missing', 'repaired', 'contradicted', 'disputed', 'silent', 'unanswered')`

interface Found {
  readonly claimsAhead: readonly unknown[]
  readonly exitCode: number | null
  readonly stoppedAt: number
}

/** Waits until every stream is recorded and the hidden fills are missed, and ends the recorder a while after that. */
async function watch(recording: Recording): Promise<Found> {
  const { pool } = recording.database.database
  await vi.waitFor(async () => expect(await lacking(recording)).toEqual([]), patience)
  const missed = async () => {
    const { rows } = await pool.query(
      `select from market.gaps where stream = 'fills' and category = 'SPOT' and symbol = 'BTCUSDT' and state = 'open'
         and from_time <= to_timestamp($1) and to_time >= to_timestamp($2)`,
      [hidden.from / 1000, hidden.to / 1000],
    )
    return rows.length
  }
  await vi.waitFor(async () => expect(await missed()).toBe(1), patience)
  // Instruments are chosen anew, and repairs are looked for, once a minute.
  await sleep(75_000)
  const { streams } = await statusOf(recording.url)
  const before = streams.filter(({ name }) => ['tickers', 'order_books', 'fills', 'candles'].includes(name))
  const had = new Map(before.map(({ name, rowsWritten }) => [name, rowsWritten]))
  await vi.waitFor(async () => expect(await lacking(recording, had)).toEqual([]), patience)
  const { rows } = await pool.query(ahead, [Date.now() / 1000])
  const stoppedAt = Date.now()
  recording.program.process.kill('SIGTERM')
  const { exitCode } = await recording.program.finished
  return { claimsAhead: rows, exitCode, stoppedAt }
}

test.each(machines)(
  'with a clock that is %s all is recorded, and nothing false is claimed',
  { timeout: 3_600_000 },
  async (what) => {
    const { database, address, dataDir } = recordings.get(what) as Recording
    // Comparing takes the time of the simulators, which are in this process: all recorders must have ended.
    await Promise.allSettled(watched.values())
    const found = await watched.get(what)
    expect(found).toMatchObject({ claimsAhead: [], exitCode: 0 })
    const { stoppedAt = 0 } = found ?? {}
    const { pool } = database.database
    await storeSpooled(dataDir, database.database)
    const served = simulator.control.journal().filter(({ source }) => source === address)
    const tables = await compareTables(pool, served, [], [], settleMs, stoppedAt)
    expect(tables.flatMap(({ wrong }) => wrong)).toEqual([])
    const gaps = await compareGaps(pool, simulator.world, stoppedAt - minuteMs)
    expect(gaps).toMatchObject({ wrong: [], falseClaims: [], recall: 1 })
    expect(gaps.lostFills).toBeGreaterThan(0)
    expect((await pool.query(unfounded)).rows).toEqual([])
  },
)
