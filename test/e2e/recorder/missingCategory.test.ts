import { afterEach, describe, expect, it } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { ownsEverything } from '../../../src/collect/universe/planUniverse.js'
import { createLogger } from '../../../src/runtime/logger.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const patience = { timeout: 120_000, interval: 200 }
const dataDir = temporaryFolder('category')
let simulator: Simulator
let database: TestDatabase
let recorder: Recorder | undefined

async function start(quirks: Partial<Quirks>): Promise<Recorder> {
  simulator = await startSimulator({ scale: 'tiny', quirks })
  database = await createTestDatabase()
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  config.streams.instruments.schedule = '*/2 * * * * *'
  config.streams.tickers.schedule = '*/2 * * * * *'
  recorder = await startRecorder(config, createLogger('silent'))
  return recorder
}

afterEach(async () => {
  await recorder?.stop()
  recorder = undefined
  await simulator.close()
  await database.drop()
})

const incidentOf = (what: string) => recorder?.collector.incidents.recent().find((incident) => incident.what === what)

async function tickersOf(category: string): Promise<number> {
  const { rows } = await database.database.pool.query<{ count: string }>(
    'select count(*) from market.tickers where category = $1',
    [category],
  )
  return Number(rows[0]?.count)
}

describe('a category that the service does not know any more', () => {
  it('keeps nobody from starting, is an incident that names it while the others go on, and comes back by itself', async () => {
    await start({ missingCategories: [{ category: 'COIN-FUTURES', code: '40019' }] })
    await expect.poll(() => recorder?.collector.phase, patience).toBe('collecting')
    for (const what of ['instruments', 'tickers']) {
      await expect.poll(() => incidentOf(what)?.message, patience).toContain(`${what} COIN-FUTURES: unknown-category`)
    }
    await expect.poll(() => tickersOf('SPOT'), patience).toBeGreaterThan(10)
    // The others have been answered time and again, and it is an incident still.
    await expect.poll(() => incidentOf('tickers')?.count, patience).toBeGreaterThan(2)
    expect(incidentOf('tickers')?.until).toBeNull()
    expect(await tickersOf('COIN-FUTURES')).toBe(0)

    // Left to another recorder it is none of this one's. What was under way may fail once more: that is over within a minute.
    recorder?.collector.assign({ ...ownsEverything, hasList: (_stream, category) => category !== 'COIN-FUTURES' })
    await expect.poll(() => incidentOf('tickers')?.until, patience).not.toBeNull()
    recorder?.collector.assign(ownsEverything)
    await expect.poll(() => incidentOf('tickers')?.until, patience).toBeNull()

    simulator.control.setQuirks({ missingCategories: [] })
    await expect.poll(() => tickersOf('COIN-FUTURES'), patience).toBeGreaterThan(0)
    await expect.poll(() => incidentOf('tickers')?.until ?? null, patience).not.toBeNull()
  })
})

describe('a page of the proxy in front of the service', () => {
  it('is an incident that says so, and recording goes on at once when it is gone', async () => {
    await start({})
    await expect.poll(() => tickersOf('SPOT'), patience).toBeGreaterThan(0)
    simulator.control.setFaults([{ kind: 'browserCheck' }])
    await expect.poll(() => incidentOf('tickers')?.message, patience).toContain('Checking your browser')
    expect(incidentOf('tickers')?.message).toContain('it is no rate limit')
    simulator.control.clearFaults()
    const before = await tickersOf('SPOT')
    await expect.poll(() => tickersOf('SPOT'), patience).toBeGreaterThan(before)
  })
})
