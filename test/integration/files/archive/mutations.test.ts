import { cp, rm } from 'node:fs/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Certificate, certify } from '../../../../src/files/archive/certify.js'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { addCoverage } from '../../../../src/ledger/coverage.js'
import { mutations } from '../../../support/archiveMutations.js'
import { archiveAll, everything, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const from = Date.UTC(2026, 2, 2)
const to = from + 48 * hourMs
const later = to + 30 * 24 * hourMs
const tables = ['fills', 'candles']
const days = ['2026-03-02', '2026-03-03']
const victims = tables.flatMap((table) => days.map((day) => ({ table, day })))
const wanted = { tables, from: '2026-03-02', to: '2026-03-04', isWanted: () => true }

let source: TestDatabase
let copy: TestDatabase
let master: Awaited<ReturnType<typeof temporaryArchive>>
let certificate: Certificate | null
let whole: Record<string, string[]>
beforeAll(async () => {
  source = await createTestDatabase()
  copy = await createTestDatabase()
  const { db } = source.database
  const hours = Array.from({ length: 48 }, (_, hour) => from + hour * hourMs)
  const categories = ['SPOT', 'USDT-FUTURES'] as const
  for (const category of categories) {
    await insertFills(
      db,
      hours.map((ts) => aFill({ category, ts, execId: `${ts}` })),
    )
    await upsertCandles(
      db,
      hours.map((openTime) => aCandle({ category, openTime, interval: '1H' })),
    )
    const instrument = { category, symbol: 'BTCUSDT' } as const
    await addCoverage(db, { stream: 'fills', ...instrument, type: null, interval: null }, [{ from, to }])
    await addCoverage(db, { stream: 'candles', ...instrument, type: 'market', interval: '1H' }, [{ from, to }])
  }
  master = await temporaryArchive()
  await archiveAll(source.database, master.target, later)
  ;({ certificate } = await certify(master.target, wanted))
  whole = await everything(source.database)
  for (const table of saved) await sql.raw(`create table ${savedAs(table)} as table ${table}`).execute(db)
})
afterAll(async () => {
  await master.drop()
  await source.drop()
  await copy.drop()
})

const saved = ['market.fills', 'market.candles', 'recorder.known', 'recorder.archived_day']
/** Columns that the database does not fill by itself. */
const columnsOf = (table: string) =>
  table === 'recorder.known'
    ? 'stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, judged_at, times'
    : '*'
const savedAs = (table: string) => `recorder.saved_${table.split('.')[1]}`

/** The database as it was when the archive was written. */
async function reset(): Promise<void> {
  for (const table of saved) {
    await sql.raw(`truncate ${table}`).execute(copy.database.db)
    await sql.raw(`truncate ${table}`).execute(source.database.db)
    const into = columnsOf(table) === '*' ? '' : `(${columnsOf(table)})`
    await sql
      .raw(`insert into ${table} ${into} select ${columnsOf(table)} from ${savedAs(table)}`)
      .execute(source.database.db)
  }
}

async function problemsOf(archive: Awaited<ReturnType<typeof temporaryArchive>>): Promise<string[]> {
  const problems: string[] = []
  for await (const one of verifyArchive(archive.target, { database: source.database, tables })) {
    problems.push(...one.problems)
  }
  return problems
}

/** What a database has of a day: rows, and claims about them. */
const marketOf = (all: Record<string, string[]>) => tables.flatMap((table) => all[`market.${table}`] ?? [])

// Each in one of the days, in turn: all of them in each take minutes.
const cases = mutations.map((mutation, i) => ({
  ...mutation,
  ...(victims[i % victims.length] ?? { table: '', day: '' }),
}))

describe('a change of the archive is noticed, and loses no row', () => {
  test.each(cases)('$title in $table of $day', async ({ apply, visibility, table, day }) => {
    const archive = await temporaryArchive()
    try {
      await cp(master.folder, archive.folder, { recursive: true })
      await reset()
      await apply({ folder: archive.folder, table, day })

      const certified = await certify(archive.target, wanted)
      if (visibility === 'damaged') expect(certified).toEqual({ certificate: null, problems: [expect.any(String)] })
      else expect(certified.certificate).not.toEqual(certificate)

      // Another database, which has never heard of the archive.
      const restored = await restoreArchive(copy.database, archive.target, { tables })
      const elsewhere = await everything(copy.database)
      if (visibility !== 'forged') {
        expect(restored.restored).toHaveLength(victims.length - 1)
        expect(restored.problems).toHaveLength(visibility === 'damaged' ? 1 : 0)
        const inDay = elsewhere[`market.${table}`]?.filter((row) => row.includes(`"${day}T`))
        expect(inDay).toEqual([])
      }
      for (const row of marketOf(elsewhere)) expect(marketOf(whole)).toContain(row)
      const { rows: claims } = await sql<{ late: number }>`
        select count(*)::integer as late from market.coverage
        where from_time < ${new Date(from)} or to_time > ${new Date(to)}`.execute(copy.database.db)
      expect(claims).toEqual([{ late: 0 }])

      // The database that wrote it refuses what it did not write.
      const here = await restoreArchive(source.database, archive.target, { tables })
      expect(here.problems).toHaveLength(1)

      const retention = { tables: tables.map((name) => ({ name, retentionDays: 1 })) }
      const { kept } = await removeArchived(source.database, archive.target, retention, { now: () => later })
      expect(kept.filter((one) => one.table === table)).toMatchObject([{ table, day }])
      const left = marketOf(await everything(source.database))
      const inEither = new Set([...left, ...marketOf(elsewhere)])
      expect(marketOf(whole).filter((row) => !inEither.has(row))).toEqual([])

      await reset()
      expect(await problemsOf(archive)).not.toEqual([])
      // While the rows are there the day is written anew.
      await archiveAll(source.database, archive.target, later)
      await pruneArchive(archive.target)
      expect(await problemsOf(archive)).toEqual([])
      expect((await certify(archive.target, wanted)).certificate).toEqual(certificate)
    } finally {
      await archive.drop()
      await rm(`${archive.folder}.outside`, { force: true })
    }
  })
})

test('there are at least 40 ways', () => {
  expect(mutations.length).toBeGreaterThanOrEqual(40)
})
