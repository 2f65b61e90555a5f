import { cp, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { certify } from '../../../../src/files/archive/certify.js'
import { manifestPath } from '../../../../src/files/archive/manifest.js'
import { pruneArchive, type VerifiedDay, verifyArchive } from '../../../../src/files/archive/verify.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { archivedTable, dayEnd, dayOf, dayStart } from '../../../../src/files/archive/tables.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { addCoverage } from '../../../../src/ledger/verdicts.js'
import { mutations, wholeDay } from '../../../support/archiveMutations.js'
import { archiveAll, everything, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const from = dayStart(wholeDay)
const tables = ['fills', 'candles'] as const
/** The first day of each table stays as it is: other days take files from it. */
const days = Array.from({ length: 2 + (mutations.length >> 1) }, (_, i) => dayOf(from + i * dayMs))
const to = from + days.length * dayMs
const later = to + 30 * dayMs

/** Each changes a day of its own, so that all of them need one archive, one restore and one verification. */
const cases = mutations.map((mutation, i) => ({
  ...mutation,
  table: tables[i % 2] ?? 'fills',
  day: days[1 + (i >> 1)] ?? '',
}))
type Case = (typeof cases)[number]

let source: TestDatabase
let copy: TestDatabase
let pristine: Awaited<ReturnType<typeof temporaryArchive>>
let changed: Awaited<ReturnType<typeof temporaryArchive>>
let whole: Record<string, string[]>

beforeAll(async () => {
  source = await createTestDatabase()
  copy = await createTestDatabase()
  pristine = await temporaryArchive()
  changed = await temporaryArchive()
  const { db } = source.database
  for (const category of ['SPOT', 'USDT-FUTURES'] as const) {
    const times = days.flatMap((day) => [0, 8, 23].map((hour) => dayStart(day) + hour * 3_600_000))
    await insertFills(
      db,
      times.map((ts) => aFill({ category, ts, execId: `${ts}` })),
    )
    await upsertCandles(
      db,
      times.map((openTime) => aCandle({ category, openTime, interval: '1H' })),
    )
    const instrument = { category, symbol: 'BTCUSDT' } as const
    await addCoverage(db, { stream: 'fills', ...instrument, type: '', interval: '' }, [{ from, to }])
    await addCoverage(db, { stream: 'candles', ...instrument, type: 'market', interval: '1H' }, [{ from, to }])
  }
  await archiveAll(source.database, pristine.target, later)
  await cp(pristine.folder, changed.folder, { recursive: true })
  for (const { apply, table, day } of cases) await apply({ folder: changed.folder, table, day })
  whole = await everything(source.database)
})
afterAll(async () => {
  await pristine.drop()
  await changed.drop()
  await rm(`${changed.folder}.outside`, { force: true })
  await source.drop()
  await copy.drop()
})

const certificateOf = async ({ target }: typeof pristine, { table, day }: Case) =>
  certify(target, { tables: [table], from: day, to: dayOf(dayEnd(day)), isWanted: () => true })

async function countRows({ table, day }: Case): Promise<number> {
  const time = sql.ref(archivedTable(table).timeColumn ?? '')
  const { rows } = await sql<{ rows: number }>`
    select count(*)::integer as rows from ${sql.table(`market.${table}`)}
    where ${time} >= ${new Date(dayStart(day))} and ${time} < ${new Date(dayEnd(day))}`.execute(source.database.db)
  return rows[0]?.rows ?? 0
}

/** Rows of a day of a table. */
const rowsOf = (all: Record<string, string[]>, { table, day }: Case) =>
  all[`market.${table}`]?.filter((row) => row.includes(`"${day}T`)) ?? []

const problemsOf = (problems: readonly string[], { table, day }: Case) =>
  problems.filter((problem) => problem.includes(`${table} of ${day}`))

describe('a change of the archive is noticed', () => {
  test.each(cases)('by a certificate: $title in $table of $day', async (one) => {
    const certified = await certificateOf(changed, one)
    if (one.visibility === 'damaged') expect(certified).toEqual({ certificate: null, problems: [expect.any(String)] })
    else expect(certified.certificate).not.toEqual((await certificateOf(pristine, one)).certificate)
  })

  describe('by a database that never heard of the archive', () => {
    let restored: Awaited<ReturnType<typeof restoreArchive>>
    let found: Record<string, string[]>
    beforeAll(async () => {
      restored = await restoreArchive(copy.database, changed.target, { tables })
      found = await everything(copy.database)
    })

    test.each(cases)('$title in $table of $day', (one) => {
      const isRestored = restored.restored.some(({ table, day }) => table === one.table && day === one.day)
      expect(isRestored).toBe(one.visibility === 'forged')
      expect(problemsOf(restored.problems, one)).toHaveLength(one.visibility === 'damaged' ? 1 : 0)
      if (one.visibility !== 'forged') expect(rowsOf(found, one)).toEqual([])
    })

    test('all other days are restored, and nothing that was not there', async () => {
      const inVain = cases.filter(({ visibility }) => visibility !== 'forged')
      expect(restored.restored).toHaveLength(tables.length * days.length - inVain.length)
      for (const table of tables) {
        for (const row of found[`market.${table}`] ?? []) expect(whole[`market.${table}`]).toContain(row)
      }
      const { rows: claims } = await sql<{ late: number }>`
        select count(*)::integer as late from market.coverage
        where from_time < ${new Date(from)} or to_time > ${new Date(to)}`.execute(copy.database.db)
      expect(claims).toEqual([{ late: 0 }])
    })
  })

  test('by the database that wrote it, which restores nothing of it', async () => {
    const { problems, restored } = await restoreArchive(source.database, changed.target, { tables })
    for (const one of cases) expect(problemsOf(problems, one)).toHaveLength(1)
    expect(problems).toHaveLength(cases.length)
    expect(restored).toHaveLength(tables.length * days.length - cases.length)
  })
})

describe('a change of the archive loses no row', () => {
  /** Days that removal has come to, in their order. */
  const kept: { table: string; day: string; rows: number }[] = []
  beforeAll(async () => {
    const archive = await temporaryArchive()
    await cp(changed.folder, archive.folder, { recursive: true })
    try {
      // Removal of a table ends at the first day that is not as it was written.
      for (const name of tables) {
        for (const one of cases.filter(({ table }) => table === name)) {
          const request = [{ name, retentionDays: 1 }]
          const result = await removeArchived(source.database, archive.target, request, { now: () => later })
          const [stays] = result.kept
          if (stays !== undefined) kept.push({ ...stays, rows: await countRows(one) })
          for (const path of [
            dirname(manifestPath({ table: name, day: one.day, version: 1 })),
            `table=${name}/day=${one.day}`,
          ]) {
            await rm(join(archive.folder, path), { recursive: true, force: true })
            await cp(join(pristine.folder, path), join(archive.folder, path), { recursive: true })
          }
        }
      }
    } finally {
      await archive.drop()
    }
  })

  test.each(cases)('$title in $table of $day', (one) => {
    expect(kept).toContainEqual(
      expect.objectContaining({ table: one.table, day: one.day, rows: rowsOf(whole, one).length }),
    )
    expect(kept).toHaveLength(cases.length)
  })
})

describe('a change of the archive is mended while the rows are there', () => {
  let before: VerifiedDay[]
  let after: VerifiedDay[]
  beforeAll(async () => {
    await restoreArchive(source.database, pristine.target, { tables })
    before = await verify()
    await archiveAll(source.database, changed.target, later)
    await pruneArchive(changed.target)
    after = await verify()
  })

  async function verify(): Promise<VerifiedDay[]> {
    const found: VerifiedDay[] = []
    for await (const one of verifyArchive(changed.target, { database: source.database, tables })) found.push(one)
    return found.filter(({ problems }) => problems.length > 0)
  }

  test.each(cases)('$title in $table of $day', async (one) => {
    expect(before).toContainEqual(expect.objectContaining({ table: one.table, day: one.day }))
    const { certificate } = await certificateOf(pristine, one)
    expect((await certificateOf(changed, one)).certificate).toEqual(certificate)
  })

  test('nothing else is wrong before, and nothing at all afterwards', () => {
    const expected = new Set(cases.map(({ table, day }) => `${table} ${day}`))
    expect(new Set(before.map(({ table, day }) => `${table} ${day}`))).toEqual(expected)
    expect(after).toEqual([])
  })
})

test('there are at least 40 ways', () => {
  expect(mutations.length).toBeGreaterThanOrEqual(40)
})
