import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

const run = () => archiveAll(created.database, archive.target, now)
const remove = (name: string, retentionDays: number) =>
  removeArchived(created.database, archive.target, [{ name, retentionDays }], { now: () => now })

test('liquidations of one moment that differ in price or amount alone are kept apart', async () => {
  const { db } = created.database
  const insert = (prices: readonly string[]) =>
    sql`
    insert into market.liquidations (category, symbol, ts, side, price, amount, occurrence, received_at)
    select 'USDT-FUTURES', 'BTCUSDT', ${new Date(from)}, 'sell', price, 1, 1, now()
    from unnest(${prices}::numeric[]) as price`.execute(db)
  const stored = async () => {
    const { rows } = await sql<{ price: string }>`
      select price::text from market.liquidations order by liquidations.price`.execute(db)
    return rows.map(({ price }) => price)
  }
  await insert(['9.5', '10', '11'])
  await run()
  await sql`truncate market.liquidations`.execute(db)
  await sql`update recorder.archived_day set removed_at = now(), proof_digest = ''`.execute(db)
  await insert(['8', '10', '10.5'])
  expect((await run()).written).toMatchObject([{ table: 'liquidations', version: 2, rows: 5 }])
  await restoreArchive(created.database, archive.target, { tables: ['liquidations'] })
  expect(await stored()).toEqual(['8', '9.5', '10', '10.5', '11'])
  expect((await remove('liquidations', 1)).kept).toEqual([])
  expect(await stored()).toEqual([])
})
