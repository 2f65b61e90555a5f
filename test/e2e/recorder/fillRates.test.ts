import { expect, onTestFinished, test } from 'vitest'
import { startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dataDir = temporaryFolder('fill-rates')

test('a single recorder learns from its own fills how busy instruments are', async () => {
  const simulator = await startSimulator({ scale: 'tiny' })
  onTestFinished(() => simulator.close())
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  // Rates are read every ten minutes.
  const sleep: typeof systemClock.sleep = (ms, signal) => systemClock.sleep(ms === 600_000 ? 500 : ms, signal)
  const recorder = await startRecorder(config, createLogger('silent'), { clock: { ...systemClock, sleep } })
  onTestFinished(async () => {
    await recorder.stop()
  })
  const rates = () => recorder.collector.universe.planned().instruments.map((known) => known.measuredFillsPerSecond)
  expect(rates().filter((rate) => rate !== null)).toEqual([])
  await expect.poll(() => rates().filter((rate) => rate !== null).length).toBeGreaterThan(0)
})
