import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { adoptArchive } from '../../../../src/files/archive/adopt.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { missingEvents } from '../../../../src/ledger/missing.js'
import { archiveAll, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'
import { addCoverage } from '../../../support/coverage.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs
const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
  const { db } = created.database
  const fills = Array.from({ length: 40 }, (_, i) => aFill({ ts: from + (i * dayMs) / 4, execId: `${i}` }))
  await insertFills(db, fills)
  await addCoverage(db, series, [{ from, to: now }])
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

test('after a dump was brought back, what only the archive has stays, and is final when it is adopted', async () => {
  const { database } = created
  const { db } = database
  await archiveAll(database, archive.target, now)
  await sql`create table public.days as table recorder.archived_day`.execute(db)
  await sql`create table public.pointers as table iceberg.iceberg_tables`.execute(db)
  // What the dump does not have: a fill with its claim, and a correction of another one.
  const rare = { ...series, symbol: 'RAREUSDT' }
  await insertFills(db, [aFill({ ts: from + 5, execId: 'rare', symbol: 'RAREUSDT' })])
  await addCoverage(db, rare, [{ from, to: from + dayMs }])
  await sql`update market.fills set price = 7 where exec_id = '0'`.execute(db)
  await archiveAll(database, archive.target, now)
  const before = await rowsOf(archive.target, 'fills')
  // The dump is brought back.
  await sql`delete from market.fills where symbol = 'RAREUSDT'`.execute(db)
  await sql`delete from recorder.ledger where symbol = 'RAREUSDT'`.execute(db)
  await sql`update market.fills set price = 8 where exec_id = '0'`.execute(db)
  await insertFills(db, [aFill({ ts: from + 6, execId: 'late' })])
  await sql`truncate recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables`.execute(db)
  await sql`insert into recorder.archived_day table public.days`.execute(db)
  await sql`insert into iceberg.iceberg_tables table public.pointers`.execute(db)

  const run = () => archiveAll(database, archive.target, now)
  await expect(run()).rejects.toThrow(/knows more than this database: archive adopt makes final/)
  expect(await rowsOf(archive.target, 'fills')).toEqual(before)
  await adoptArchive(db, archive.target)
  expect((await run()).problems).toEqual([])
  const after = await rowsOf(archive.target, 'fills')
  expect(after).toEqual(expect.arrayContaining(before))
  expect(after.filter((row) => !before.some((one) => one['exec_id'] === row['exec_id']))).toMatchObject([
    { exec_id: 'late' },
  ])
  expect(after).toHaveLength(before.length + 1)
  expect(await missingEvents(db, rare, { from, to: from + 2 * dayMs })).toEqual([
    { from: from + dayMs, to: from + 2 * dayMs },
  ])
  const tables = [{ name: 'fills', retentionDays: 4 }]
  const { kept } = await removeArchived(database, archive.target, tables, { now: () => now })
  expect(kept).toEqual([])
  expect(await rowsOf(archive.target, 'fills')).toEqual(after)
})

test('an archive that belongs to another database is left alone until it is adopted', async () => {
  const { database } = created
  await sql`insert into recorder.service (base_url) values ('https://one.example')`.execute(database.db)
  await archiveAll(database, archive.target, now)
  const before = await rowsOf(archive.target, 'fills')
  const other = await createTestDatabase()
  try {
    const run = () => archiveAll(other.database, archive.target, now)
    await sql`insert into recorder.service (base_url) values ('https://one.example')`.execute(other.database.db)
    // It has recorded for longer, so that its own pointers would be newer.
    await insertFills(other.database.db, [aFill({ ts: from + 7, execId: 'other' })])
    await sql`insert into iceberg.iceberg_tables
      select 'recorder', 'market', 'fills', 'file:///elsewhere/market/fills/metadata/v99.metadata.json'`.execute(
      other.database.db,
    )
    await expect(run()).rejects.toThrow(/belongs to another database: archive adopt takes it over/)
    const tables = [{ name: 'fills', retentionDays: 4 }]
    await expect(removeArchived(other.database, archive.target, tables, { now: () => now })).rejects.toThrow(
      /belongs to another database/,
    )
    expect(await rowsOf(archive.target, 'fills')).toEqual(before)
    await adoptArchive(other.database.db, archive.target)
    expect((await run()).problems).toEqual([])
    expect(await rowsOf(archive.target, 'fills')).toHaveLength(before.length + 1)
    await expect(archiveAll(database, archive.target, now)).rejects.toThrow(/belongs to another database/)
    await sql`update recorder.service set base_url = 'https://two.example'`.execute(database.db)
    await expect(adoptArchive(database.db, archive.target)).rejects.toThrow(
      /holds what one.example sent, and this database what two.example sent/,
    )
  } finally {
    await other.drop()
  }
})
