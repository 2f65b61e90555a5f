import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrateToLatest } from '../../../../src/db/migrate.js'
import { type Snapshot, symbolsOfDay, withSnapshot } from '../../../../src/files/archive/rows.js'
import { archivedTable, dayOf } from '../../../../src/files/layout/tables.js'
import { reconcile } from '../../../../src/server/timescale/reconcile.js'
import { createEmptyDatabase, type TestDatabase } from '../../../support/database.js'
import { testStorage } from '../../../support/databaseServer.js'
import { insertFills } from '../../../support/insertFills.js'
import { untilSomebodyWaits } from '../../../support/lockWait.js'
import { aFill, someTime } from '../../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createEmptyDatabase()
})
afterAll(() => created.drop())

test('a snapshot has the rows of a table that gets its chunks while it is read', async () => {
  const { db } = created.database
  await migrateToLatest(created.database)
  await insertFills(db, [aFill()])
  const table = archivedTable('fills')
  const read = async (snapshot: Snapshot) => {
    // The proof of a day is read before its rows.
    await snapshot.query('select count(*) from recorder.ledger')
    const reconciling = reconcile(db, testStorage)
    await Promise.race([reconciling, untilSomebodyWaits(db)])
    return { reconciling, symbols: await symbolsOfDay(snapshot, table, dayOf(someTime)) }
  }
  const found = await withSnapshot(created.database, read, { table })
  expect([...found.symbols.keys()]).toEqual([aFill().category])
  await found.reconciling
})
