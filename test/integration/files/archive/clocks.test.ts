import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeOld } from '../../../../src/cli/archive.js'
import { runArchive } from '../../../../src/files/archive/run.js'
import { dayOf } from '../../../../src/files/layout/tables.js'
import { loadConfig } from '../../../../src/config/resolve.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const defaults = loadConfig({ env: {} })

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeAll(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
  const old = [100, 20].map((days) => aFill({ ts: Date.now() - days * dayMs, execId: `${days}` }))
  await insertFills(created.database.db, old)
  await archiveAll(created.database, archive.target, Date.now())
})
afterAll(async () => {
  await archive.drop()
  await created.drop()
})

async function remove(machineNow: () => number) {
  const { fills } = defaults.storage
  const storage = { ...defaults.storage, fills: { ...fills, retentionDays: 30 } }
  const config = { ...defaults, storage, archive: { ...defaults.archive, folder: archive.folder } }
  const { removed, kept, problem } = await removeOld(created.database, archive.target, config, { machineNow })
  const { rows } = await created.database.pool.query<{ id: string }>(
    'select exec_id as id from market.fills order by 1',
  )
  return { removed: removed.length, kept, problem, left: rows.map(({ id }) => id) }
}

test('archived rows leave by the earlier of two clocks, and stay while these are far apart', async () => {
  const apart = await remove(() => Date.now() + 90 * dayMs)
  expect(apart).toMatchObject({ removed: 0, kept: [], left: ['100', '20'] })
  expect(apart.problem).toMatch(/^nothing old is removed while clocks are more than an hour apart: .*set the one/)
  expect(await remove(() => Date.now() + 30_000)).toEqual({ removed: 1, kept: [], problem: null, left: ['20'] })
})

test('a day waits six hours at most after the clock of the database was set back', async () => {
  const { pool, db } = created.database
  const day = dayOf(Date.now() - 20 * dayMs)
  const run = async () => {
    const request = { tables: ['fills', 'instruments'], afterHours: 1, snapshotDays: 30 }
    const { due } = await runArchive(created.database, archive.target, request, { now: Date.now })
    return due.map((one) => `${one.table} ${one.day}`)
  }
  await run()
  expect(await run()).toEqual([])
  // It was a year ahead when the day was written, or made due, and when the list of instruments was.
  await pool.query(`update recorder.archived_day set archived_at = archived_at + interval '1 year',
    day = case when table_name = 'instruments' then day + 366 else day end`)
  await insertFills(db, [aFill({ ts: Date.now() - 20 * dayMs, execId: 'late' })])
  expect(await run()).toEqual([`instruments ${dayOf(Date.now())}`])
  const { rows } = await pool.query<{ isSoon: boolean }>(
    `select due_at <= now() + interval '6 hours' as "isSoon" from recorder.archived_day where day = $1`,
    [day],
  )
  expect(rows).toEqual([{ isSoon: true }])
  await pool.query(`update recorder.archived_day set due_at = due_at + interval '1 year'`)
  expect(await run()).toEqual([`fills ${day}`])
})
