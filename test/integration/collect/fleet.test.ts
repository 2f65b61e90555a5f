import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { Fleet } from '../../../src/collect/fleet/fleet.js'
import { loadConfig } from '../../../src/config/load.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { lockNames } from '../../../src/db/locks/names.js'
import { lockSessionName, queryOn, tryLock } from '../../../src/db/locks/sessionLock.js'
import { openDatabase } from '../../../src/db/database.js'
import { acquireEgressLock } from '../../../src/lease/egressLock.js'
import type { EgressLock } from '../../../src/lease/egressOptions.js'
import { lookAround } from '../../../src/lease/fleetState.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const logger = pino({ level: 'silent' })
let database: TestDatabase
let folder: string
const locks: EgressLock[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-fleet-'))
})
afterEach(async () => {
  for (const lock of locks.splice(0)) await lock.release()
})
afterAll(async () => {
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

/** A recorder as far as the others see it: a session, and a part of the work. */
async function startMember(egress: string) {
  const state = { pausedMs: 0 }
  const fleet = new Fleet({
    config: loadConfig({ env: {} }),
    egress,
    clock: systemClock,
    logger,
    disk: systemDisk,
    file: join(folder, `${egress}.json`),
    universe: () => ({ kind: 'listed', instruments: [] }),
    onChange: () => undefined,
    isReady: () => true,
    pausedMs: () => state.pausedMs,
  })
  const sharing = { entry: fleet.entry, look: fleet.look.bind(fleet) }
  const lock = await acquireEgressLock(database.url, egress, { logger, sharing })
  locks.push(lock)
  const keys = Array.from({ length: 200 }, (_, index) => ({ category: 'SPOT', symbol: `X${index}` }) as const)
  return { fleet, state, has: () => keys.filter((key) => fleet.ownership.hasInstrument('fills', key)).length }
}
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 30_000, interval: 20 })

test('one that the service blocks leaves its part to the others, and the last one keeps it', async () => {
  const [one, other] = [await startMember('a'), await startMember('b')]
  const both = () => {
    expect(one.has()).toBeGreaterThan(50)
    expect(one.has() + other.has()).toBe(200)
  }
  await eventually(both)

  one.state.pausedMs = 60_000
  await eventually(() => expect([one.has(), other.has()]).toEqual([0, 200]))
  other.state.pausedMs = 60_000
  // Some looks later.
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  expect(other.has()).toBe(200)

  one.state.pausedMs = 0
  other.state.pausedMs = 0
  await eventually(both)
})

test('of one that has been silent for a moment it is known whether its session is there', async () => {
  const { db } = database.database
  const session = openDatabase({ url: database.url, poolSize: 1, applicationName: lockSessionName('test') })
  await tryLock(queryOn(session.db), lockNames.egress('with'))
  await database.database.pool.query(
    `insert into recorder.egress (egress, owner, held_since, fleet, budget, place, heartbeat_at)
     select name, 'x', now(), 'other', 6000, 'somewhere', now() - make_interval(secs => case name when 'spoke' then 0 else 10 end)
     from unnest(array['with', 'without', 'spoke']) as name`,
  )
  const seen = async () => {
    const { recorders } = await lookAround(queryOn(db), 'other')
    return recorders.map(({ egress, hasSession }) => `${egress} ${hasSession}`)
  }
  expect(await seen()).toEqual(['spoke true', 'with true', 'without false'])
  await session.close()
  await vi.waitFor(async () => expect(await seen()).toContain('with false'), { timeout: 10_000 })
})
