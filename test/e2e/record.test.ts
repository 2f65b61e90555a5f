import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config/resolve.js'
import { categories } from '../../src/market/category.js'
import { streamNames } from '../../src/market/stream.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import { quirksSchema } from '../../src/simulator/world/quirks.js'
import { StallWatch } from '../../src/simulator/faults.js'
import { createWorld } from '../../src/simulator/world/world.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { brokenPromises } from '../support/rejections.js'
import { keyColumns, type RecordedTable, servedTruth, type Truth } from '../support/servedTruth.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'
import { differences, storedRows } from '../support/storedRows.js'
import { storeSpooled } from '../support/storeSpooled.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const settleMs = 2_000
/** A busy machine holds up either process for longer than a network would: the simulator counts what it sees late. */
const latencyJitterMs = 500

/** Two more rounds of every schedule after the first. What happens when minutes end is looked at in simulated time. */
const twoRoundsMs = 20_000

/** A market with instruments in all categories, every stream switched on, and then every row compared. */
describe('recording everything for some rounds of every schedule', () => {
  const dataDir = temporaryFolder('record')
  let simulator: SimulatorProcess
  let testDatabase: TestDatabase
  let recorder: Recorder
  let truth: Readonly<Record<RecordedTable, Truth>>
  /**
   * Without answers that a busy machine may have given up waiting for, and without the history of fills. Pages of the past do not
   * go to the disk: the ones that the end or the database cut off are asked for again.
   */
  let taken: typeof truth
  let drained: boolean
  let journal: ServedResponse[]
  const ownStalls = new StallWatch()

  beforeAll(async () => {
    simulator = await startSimulatorProcess(['--scale', 'small', '--journal', '--latency', '0-20'])
    testDatabase = await createTestDatabase()
    const config = loadConfig({
      env: { DATABASE_URL: testDatabase.url, EXCHANGE_BASE_URL: simulator.url },
    })
    config.database.dataDir = dataDir
    config.serve.enabled = false
    // Whether all of it is stored is asked here, not how fast a busy machine does it.
    config.collector.drainTimeoutMs = 120_000
    config.exchange.latencyJitterMs = latencyJitterMs
    // Nothing is given up that has been served.
    config.exchange.timeoutMs = 60_000
    config.streams.instruments.schedule = '*/10 * * * * *'
    // What is only looked at is not stored.
    config.streams.tickers.watchSeconds = 0
    config.streams.orderBooks.everySeconds = 5
    config.streams.rpiOrderBooks.everySeconds = 10
    config.streams.fills.maxPollSeconds = 10
    config.streams.positioning.enabled = true
    config.streams.futuresTerms.enabled = true
    config.streams.candles.intervals = ['1m', '5m']
    config.streams.candles.types = ['market', 'mark']
    // A thousand rows of each series at first: some of every category, and one that is not ASCII.
    config.streams.candles.select.symbols = ['BTC*', 'ETH*', '龙*']
    config.streams.candles.settleMs = settleMs
    recorder = await startRecorder(config, createLogger('warn'))
    const { stats } = recorder.collector
    await vi.waitFor(() => expect(streamNames.filter((name) => stats[name].lastStoredAt === null)).toEqual([]), {
      timeout: 400_000,
      interval: 200,
    })
    await sleep(twoRoundsMs)
    drained = await recorder.stop()
    await storeSpooled(dataDir, testDatabase.database)
    journal = await simulator.journal()
    truth = servedTruth(journal, settleMs)
    taken = servedTruth(
      journal.filter(
        ({ operation, isLastOfConnection }) => isLastOfConnection === undefined && !operation.endsWith('fills-history'),
      ),
      settleMs,
    )
  })

  afterAll(async () => {
    ownStalls.stop()
    await simulator.close()
    await testDatabase.drop()
  })

  test('at least 50 instruments in all categories were served', () => {
    const keys = [...truth.instruments.keys()]
    expect(keys.length).toBeGreaterThanOrEqual(50)
    expect(new Set(keys.map((key) => key.split(' ')[0]))).toEqual(new Set(categories))
  })

  test('everything in hand was stored when it stopped', () => {
    expect(drained).toBe(true)
  })

  test.for(Object.keys(keyColumns) as RecordedTable[])('market.%s holds exactly what was served', async (table) => {
    const stored = await storedRows(testDatabase.database.pool, table)
    const accepts = table === 'instruments' || table === 'candles' ? 'last served' : 'any served'
    const isPastToo = table === 'liquidations' || table === 'funding_rates'
    const due = isPastToo ? await claimed(testDatabase, table, taken[table]) : taken[table]
    expect(differences(table, stored, truth[table], accepts, { taken: due })).toEqual([])
    const missing = [...truth[table].keys()].filter((key) => !stored.has(key))
    expect(missing.length).toBeLessThan(truth[table].size / 4)
    expect(stored.size).toBeGreaterThan(0)
  })

  test('no limit was exceeded', async () => {
    const stalls = [...ownStalls.list(), ...(await simulator.stalls())]
    expect(brokenPromises(journal, stalls, latencyJitterMs)).toEqual([])
  })

  test('no row was rejected', async () => {
    const { rows } = await testDatabase.database.pool.query('select * from recorder.rejected_row')
    expect(rows).toEqual([])
  })

  test('every instrument has a history that begins when it was first seen', async () => {
    const { rows } = await testDatabase.database.pool.query(
      `select category, symbol from market.instruments i
        where not exists (select from market.instrument_history h
          where (h.category, h.symbol) = (i.category, i.symbol) and h.valid_from <= i.first_seen_at)`,
    )
    expect(rows).toEqual([])
  })

  test('fills are proven complete from the first answer on, but for recorded gaps', async () => {
    const { rows } = await testDatabase.database.pool.query<{
      category: string
      symbol: string
      from: string
      to: string
    }>(
      `select category, symbol, extract(epoch from lower(r)) * 1000 as "from", extract(epoch from upper(r)) * 1000 as "to"
         from recorder_page.coverage, unnest(ranges) r where stream = 'fills'`,
    )
    expect(rows.length).toBeGreaterThan(0)
    const stored = await storedRows(testDatabase.database.pool, 'fills')
    const world = createWorld({ seed: 1, scale: 'small', activity: {}, quirks: () => quirksSchema.parse({}) })
    for (const { category, symbol, from, to } of rows) {
      for (const fill of world.fills(category as 'SPOT', symbol, Number(from), Number(to))) {
        expect(stored.has(`${category} ${symbol} ${fill.ts} ${fill.execId}`)).toBe(true)
      }
    }
  })
})

/** The rows whose time is proven. Live responses and pages of the past come from one operation, so others may be of the past. */
async function claimed({ database }: TestDatabase, stream: string, rows: Truth): Promise<Truth> {
  const { rows: covered } = await database.pool.query<{ key: string; from: number; to: number }>(
    `select concat_ws(' ', category, symbol) as key, (extract(epoch from from_time) * 1000)::bigint as "from",
      (extract(epoch from to_time) * 1000)::bigint as "to"
     from market.coverage where stream = $1`,
    [stream],
  )
  const isCovered = (category: string, symbol: string, ts: number) =>
    covered.some(({ key, from, to }) => key === `${category} ${symbol}` && from <= ts && ts < to)
  return new Map(
    [...rows].filter(([key]) => {
      const [category = '', symbol = '', ts] = key.split(' ')
      return isCovered(category, symbol, Number(ts))
    }),
  )
}
