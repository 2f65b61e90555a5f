import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config.js'
import { categories } from '../../src/market/category.js'
import { createLogger } from '../../src/runtime/logger.js'
import { quirksSchema } from '../../src/simulator/world/quirks.js'
import { createWorld } from '../../src/simulator/world/world.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { keyColumns, type RecordedTable, servedTruth, type Truth } from '../support/servedTruth.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'
import { differences, storedRows } from '../support/storedRows.js'

const recordedMs = 120_000
const settleMs = 2_000

/** Two minutes of a market with instruments in all categories, every stream switched on, and then every row compared. */
describe('recording two minutes of everything', () => {
  let simulator: SimulatorProcess
  let testDatabase: TestDatabase
  let recorder: Recorder
  let truth: Readonly<Record<RecordedTable, Truth>>
  let drained: boolean

  beforeAll(async () => {
    simulator = await startSimulatorProcess(['--scale', 'small', '--journal', '--latency', '0-20'])
    testDatabase = await createTestDatabase()
    const config = loadConfig({
      env: { DATABASE_URL: testDatabase.url, EXCHANGE_BASE_URL: simulator.url },
    })
    config.serve.enabled = false
    // A busy machine holds up either process for longer than a network would: the simulator counts what it sees late.
    config.exchange.latencyJitterMs = 500
    config.streams.instruments.schedule = '*/20 * * * * *'
    config.streams.rpiSymbols.schedule = '5,25,45 * * * * *'
    config.streams.orderBooks.everySeconds = 5
    config.streams.rpiOrderBooks.everySeconds = 10
    config.streams.fills.select.categories = [...categories]
    config.streams.fills.maxPollSeconds = 30
    config.streams.candles.intervals = ['1m', '5m']
    config.streams.candles.types = ['market', 'mark']
    config.streams.candles.settleMs = settleMs
    recorder = await startRecorder(config, createLogger('warn'))
    await new Promise((resolve) => setTimeout(resolve, recordedMs))
    drained = await recorder.stop()
    truth = servedTruth(await simulator.journal(), settleMs)
  }, recordedMs + 60_000)

  afterAll(async () => {
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
    expect(differences(table, stored, truth[table], accepts)).toEqual([])
    expect(stored.size).toBe(truth[table].size)
    expect(stored.size).toBeGreaterThan(0)
  })

  test('no limit was exceeded', async () => {
    for (const { overall, operations } of Object.values(await simulator.report())) {
      expect(Object.entries(operations).filter(([, { rejected }]) => rejected > 0)).toEqual([])
      expect(overall.rejected).toBe(0)
    }
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
         from recorder.coverage, unnest(ranges) r where stream = 'fills'`,
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
