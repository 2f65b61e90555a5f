import { afterEach, expect, test } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dataDir = temporaryFolder('list-retry')
let simulator: Simulator
let database: TestDatabase
let recorder: Recorder | undefined

afterEach(async () => {
  await recorder?.stop()
  await simulator.close()
  await database.drop()
})

test('a list that fails is not left until its schedule comes round again', async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  config.streams.instruments.schedule = '0 0 0 29 2 *'
  simulator.control.setFaults([{ kind: 'emptyBody', operations: ['rpi-symbols'] }])
  // Retries are minutes apart in the end; only that they come is looked at.
  const after = (ms: number, action: () => void) => systemClock.after(ms >= 10_000 ? ms / 100 : ms, action)
  recorder = await startRecorder(config, createLogger('silent'), { clock: { ...systemClock, after } })
  const stats = () => recorder?.collector.stats.rpi_symbols
  await expect.poll(() => stats()?.failures ?? 0).toBeGreaterThan(1)
  simulator.control.clearFaults()
  await expect.poll(() => stats()?.rowsWritten ?? 0).toBeGreaterThan(0)
  // What the list is for.
  await expect.poll(() => recorder?.collector.stats.rpi_order_books.targets ?? 0).toBeGreaterThan(0)
  const failures = stats()?.failures
  const responses = stats()?.responses
  await new Promise((resolve) => {
    setTimeout(resolve, 1_500)
  })
  expect(stats()).toMatchObject({ failures, responses })
})
