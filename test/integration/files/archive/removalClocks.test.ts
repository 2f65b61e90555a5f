import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeOld } from '../../../../src/cli/archive.js'
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
