import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archivedTable, firstTime, lastTime } from '../../../../src/files/layout/tables.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill, someTime } from '../../../support/marketRows.js'

const dayMs = 86_400_000

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('the first and the last time of a table are found without reading all of it', async () => {
  const { db } = created.database
  const fills = Array.from({ length: 1_000 }, (_, i) => aFill({ ts: someTime + (i * dayMs) / 100, execId: `${i}` }))
  await insertFills(db, fills)
  await db.transaction().execute(async (trx) => {
    const ends = [await firstTime(trx, archivedTable('fills')), await lastTime(trx, archivedTable('fills'))]
    expect(ends).toEqual([fills[0]?.ts, fills.at(-1)?.ts])
    const { rows } = await sql<{ read: number }>`
      select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read from pg_stat_xact_user_tables
      where relname = 'fills' or relname like '_hyper_%'`.execute(trx)
    expect(rows[0]?.read).toBeLessThan(fills.length / 2)
  })
})
