import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const patience = { timeout: 60_000 }
const dataDir = temporaryFolder('choice-of-lists')
let simulator: Simulator
let database: TestDatabase
let recorder: Recorder | undefined

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
})
afterEach(async () => {
  await recorder?.stop()
  await simulator.close()
  await database.drop()
})

test('the start chooses instruments only once all lists have come', async () => {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  recorder = await startRecorder(config, createLogger('silent'))
  const { collector } = recorder
  const chosen: string[] = []
  const kept = collector.incidents.keepOnly.bind(collector.incidents)
  vi.spyOn(collector.incidents, 'keepOnly').mockImplementation((what, parts) => {
    if (collector.phase === 'starting') chosen.push(what)
    kept(what, parts)
  })
  await expect.poll(() => collector.phase, patience).toBe('collecting')
  expect(chosen).toContain('tickers')
  expect(chosen).not.toContain('fills')
})

test('lists that come together cause one choice of instruments', async () => {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  config.streams.instruments.schedule = '*/5 * * * * *'
  recorder = await startRecorder(config, createLogger('silent'))
  const { collector } = recorder
  await expect.poll(() => collector.phase, patience).toBe('collecting')
  // Each choice tells once which parts of a stream are still covered.
  const choices: number[] = []
  const kept = collector.incidents.keepOnly.bind(collector.incidents)
  vi.spyOn(collector.incidents, 'keepOnly').mockImplementation((stream, parts) => {
    if (stream === 'fills') choices.push(performance.now())
    kept(stream, parts)
  })
  const lists = () => collector.stats.instruments.responses + collector.stats.rpi_symbols.responses
  const [before, startedMs] = [lists(), performance.now()]
  await expect.poll(() => lists() - before, patience).toBeGreaterThanOrEqual(12)
  expect(choices.length).toBeGreaterThan(0)
  // Lists are awaited for a second. Only the choice of each minute may come sooner after another one.
  const soon = choices.filter((atMs, place) => atMs - (choices[place - 1] ?? -Infinity) < 950)
  expect(soon.length).toBeLessThanOrEqual(Math.ceil((performance.now() - startedMs) / 60_000))
})
