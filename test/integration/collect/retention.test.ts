import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { startRetention } from '../../../src/collect/retention.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { insertFills } from '../../support/insertFills.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'

const dayMs = 86_400_000
const logger = pino({ level: 'silent' })
const defaults = loadConfig({ env: {} })
const { storage } = defaults
const config = { ...defaults, storage: { ...storage, fills: { ...storage.fills, retentionDays: 30 } } }
const ahead = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms })

let created: TestDatabase
let ending: (() => Promise<void>) | undefined
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())
beforeEach(async () => {
  const now = systemClock.now()
  const daysAgo = [100, 20, 0]
  await insertFills(
    created.database.db,
    daysAgo.map((days) => aFill({ ts: now - days * dayMs, execId: String(days) })),
  )
})
afterEach(async () => {
  await ending?.()
  await created.database.pool.query('truncate market.fills')
})

function start(clock: Clock, serviceNow: () => number | null): Incidents {
  const incidents = new Incidents(logger, systemClock)
  const retention = startRetention(config, created.database.db, { clock, logger, incidents, serviceNow })
  ending = () => retention.stop()
  return incidents
}

async function kept(): Promise<number> {
  const { rows } = await created.database.pool.query<{ count: number }>(
    "select count(*) from market.fills where ts > now() - interval '99 days'",
  )
  return rows[0]?.count ?? 0
}

test.for([
  ['this machine is ahead', 90 * dayMs, 0],
  ['this machine and the service are ahead', 90 * dayMs, 90 * dayMs],
  ['the service is ahead', 0, 90 * dayMs],
  ['the service is behind', 0, -90 * dayMs],
] as const)('removes nothing while clocks differ, and says so: %s', async ([, machineMs, serviceMs]) => {
  const incidents = start(ahead(machineMs), () => systemClock.now() + serviceMs)
  await vi.waitFor(() => expect(incidents.recent()).toHaveLength(1), 120_000)
  const [incident] = incidents.recent()
  expect(`${incident?.what}: ${incident?.message}`).toMatch(/^retention: .*clocks are more than an hour apart/)
  await ending?.()
  expect(await kept()).toBe(2)
})

test('begins with the first response, and goes by the earliest clock', async () => {
  let responded = false
  const asked = vi.fn(() => (responded ? systemClock.now() : null))
  const incidents = start({ ...ahead(30_000), sleep: (_ms, signal) => systemClock.sleep(5, signal) }, asked)
  await vi.waitFor(() => expect(asked.mock.calls.length).toBeGreaterThan(2), 120_000)
  expect(await created.database.db.selectFrom('market.fills').select('ts').execute()).toHaveLength(3)
  responded = true
  const { db, pool } = created.database
  const { rows } = await pool.query<{ license: string | null }>(
    "select current_setting('timescaledb.license', true) as license",
  )
  // There the server removes by a policy of its own.
  if (rows[0]?.license !== 'timescale') {
    await vi.waitFor(
      async () => expect(await db.selectFrom('market.fills').select('ts').execute()).toHaveLength(2),
      120_000,
    )
  }
  expect(await kept()).toBe(2)
  expect(incidents.recent()).toEqual([])
})
