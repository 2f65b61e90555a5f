import { afterEach, expect, it } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const patience = { timeout: 120_000, interval: 200 }
const dataDir = temporaryFolder('futures')
let simulator: Simulator
let database: TestDatabase
let recorder: Recorder

async function start(quirks: Partial<Quirks> = {}): Promise<void> {
  simulator = await startSimulator({ scale: 'tiny', quirks })
  database = await createTestDatabase()
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  const { orderBooks, rpiOrderBooks, fills, candles } = config.streams
  for (const stream of [orderBooks, rpiOrderBooks, fills, candles]) stream.enabled = false
  recorder = await startRecorder(config, createLogger('silent'))
}

afterEach(async () => {
  await recorder.stop()
  await simulator.close()
  await database.drop()
})

async function symbolsOf(table: string): Promise<string[]> {
  const { rows } = await database.database.pool.query<{ symbol: string }>(
    `select distinct symbol from market.${table} where category = 'USDT-FUTURES' order by 1`,
  )
  return rows.map(({ symbol }) => symbol)
}

it('records the forming rates of listed futures, and none of the test symbols', async () => {
  await start()
  await expect.poll(() => symbolsOf('funding_forecasts'), patience).not.toEqual([])
  const listed = simulator.world.fundingForecasts('USDT-FUTURES', Date.now()).map(({ symbol }) => symbol)
  expect(listed.filter((symbol) => symbol.startsWith('TEST'))).toHaveLength(12)
  expect(await symbolsOf('funding_forecasts')).toEqual(listed.filter((symbol) => !symbol.startsWith('TEST')).toSorted())
})

it('a service without them has idle streams, and no incident', async () => {
  await start({ lackingOperations: ['current-fund-rate', 'history-fund-rate', 'liquidations'] })
  const { collector } = recorder
  await expect.poll(() => collector.phase, patience).toBe('collecting')
  for (const stream of ['funding_rates', 'funding_forecasts', 'liquidations'] as const)
    await expect.poll(() => collector.stats[stream].lastIdleAt, patience).not.toBeNull()
  // A slow machine has incidents of its own: a write that takes long.
  expect(collector.incidents.recent().filter(({ what }) => what !== 'storing')).toEqual([])
  expect(await symbolsOf('funding_forecasts')).toEqual([])
})
