import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.js'
import { DatabaseProbe } from '../../../src/serve/databaseProbe.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())

test('a database whose overview takes long responds all the same, and the overview comes when it is there', async () => {
  const { database } = created
  // Whoever counts gaps waits until this transaction ends.
  const blocking = await database.pool.connect()
  await blocking.query('begin; lock table recorder.ledger in access exclusive mode')
  let ms = 0
  const clock = { ...systemClock, monotonicMs: () => (ms += 2_000) }
  const probe = new DatabaseProbe(database, database, clock)
  try {
    for (let look = 0; look < 3; look++) {
      expect(await probe.state()).toMatchObject({ isReachable: true, error: null, overview: null })
    }
    const { rows } = await sql<{ count: number }>`
      select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(database.db)
    expect(rows).toEqual([{ count: 1 }])
  } finally {
    await blocking.query('rollback')
    blocking.release()
  }
  await vi.waitFor(async () => expect((await probe.state()).overview?.bytes).toBeGreaterThan(0), 120_000)
})
