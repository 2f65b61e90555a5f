import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { certify } from '../../../../src/files/archive/certify.js'
import { runArchive } from '../../../../src/files/archive/run.js'
import { archivedTable } from '../../../../src/files/layout/tables.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { marketTables } from '../../../../src/market/stream.js'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import { makeDayDue, withArchiveLock } from '../../../../src/files/archive/state.js'
import { readPointers } from '../../../../src/files/iceberg/catalog.js'
import { insertFills } from '../../../support/insertFills.js'
import { archiveAll, everything, filesOf, hintsOf, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { archivedFrom as from, loadArchivedMarket } from '../../../support/archivedMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aFill } from '../../../support/marketRows.js'
import { addCoverage } from '../../../support/coverage.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** The market of the cookbook ends two days later. */
const later = from + 3 * dayMs

let source: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
let written: Awaited<ReturnType<typeof archiveAll>>['written']
/** Puts back what a test has changed. */
let putBack: () => Promise<void>
beforeAll(async () => {
  source = await createTestDatabase()
  const { db } = source.database
  await loadArchivedMarket(db)
  archive = await temporaryArchive()
  written = [...(await archiveAll(source.database, archive.target, later)).written]
  const kept = await temporaryArchive()
  await cp(archive.folder, kept.folder, { recursive: true })
  await sql`create table recorder.noted_day as table recorder.archived_day`.execute(db)
  await sql`create table recorder.noted_table as table iceberg.iceberg_tables`.execute(db)
  putBack = async () => {
    await archive.drop()
    await cp(kept.folder, archive.folder, { recursive: true })
    await sql`truncate recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables`.execute(db)
    await sql`insert into recorder.archived_day table recorder.noted_day`.execute(db)
    await sql`insert into iceberg.iceberg_tables table recorder.noted_table`.execute(db)
  }
  return () => kept.drop()
})
afterAll(async () => {
  await archive.drop()
  await source.drop()
})
beforeEach(() => putBack())

const again = () => archiveAll(source.database, archive.target, later)
const pointers = () => readPointers(source.database.db)

async function verified() {
  const problems: string[] = []
  let compared = 0
  const options = { database: source.database, pointers: await pointers() }
  for await (const day of verifyArchive(archive.target, options)) {
    problems.push(...day.problems.map((problem) => `${day.table} of ${day.day}: ${problem}`))
    if (day.isEqual === true) compared++
  }
  return { problems, compared }
}

const range = { tables: marketTables, from: '2026-03-02', to: '2026-03-04', isWanted: () => true }
const certified = async (target = archive.target) => certify(target, { ...range, pointers: await hintsOf(target) })

describe('an archive', () => {
  test('is verified without a false problem while an archiver and a recorder write', async () => {
    const { db } = source.database
    const fill = (execId: string) => insertFills(db, [aFill({ ts: from + dayMs + 1, execId })])
    const options = { database: source.database, pointers: await pointers(), tables: ['candles', 'fills'] }
    const found: string[] = []
    for await (const { table, day, problems } of verifyArchive(archive.target, options)) {
      found.push(table, ...problems)
      if (found.length > 1) continue
      await fill('late')
      await makeDayDue(db, 'fills', '2026-03-03')
      expect((await again()).written.length).toBeGreaterThan(0)
      await fill('later')
      expect(day).toBe('2026-03-02')
    }
    await sql`delete from market.fills where exec_id in ('late', 'later')`.execute(db)
    expect(new Set(found)).toEqual(new Set(options.tables))
  })

  test('has no day after the last row or proof, and whole tables under the day on which they were read', () => {
    const isWhole = ({ table }: { readonly table: string }) => archivedTable(table).timeColumn === undefined
    expect(new Set(written.filter(isWhole).map(({ day }) => day))).toEqual(new Set(['2026-03-05']))
    // What is proven of the liquidations ends with the first day.
    expect(written.filter(({ table }) => table === 'liquidations').map(({ day }) => day)).toEqual(['2026-03-02'])
  })

  test('fills another database with everything, proof included, which proves the same then', async () => {
    expect(new Set(written.map(({ table }) => table))).toEqual(new Set(marketTables))
    const checked = await verified()
    expect(checked.problems).toEqual([])
    expect(checked.compared).toBe(written.filter(({ table }) => archivedTable(table).timeColumn).length)

    const copy = await createTestDatabase()
    const other = await temporaryArchive()
    try {
      const request = { tables: marketTables, pointers: await hintsOf(archive.target) }
      const { restored, problems } = await restoreArchive(copy.database, archive.target, request)
      expect(problems).toEqual([])
      expect(restored).toHaveLength(written.length)
      expect(await everything(copy.database)).toEqual(await everything(source.database))
      await expect(restoreArchive(copy.database, archive.target, request)).rejects.toThrow(/the database has rows of/)

      await archiveAll(copy.database, other.target, later)
      const own = await certified()
      expect(own.problems).toEqual([])
      expect(await certified(other.target)).toEqual(own)
      const tables = own.certificate?.tables
      const rare = tables?.find(({ table }) => table === 'candles')?.series.find(({ symbol }) => symbol === 'RAREUSDT')
      expect(rare).toMatchObject({ completeness: expect.closeTo(5 / 48, 4) as number })
      expect(rare?.gaps).toMatchObject([
        {
          from_time: '2026-03-02T20:00:00.000Z',
          to_time: '2026-03-03T02:00:00.000Z',
          reason: 'the service was away',
          state: 'open',
        },
      ])
      expect(rare?.revisions).toMatchObject([{ is_restatement: 'false' }])
      const shareOf = (name: string) =>
        tables?.find(({ table }) => table === name)?.series.map((one) => one.completeness)
      expect([shareOf('funding_rates'), shareOf('liquidations')]).toEqual([[0.25], [0.5]])
    } finally {
      await copy.drop()
      await other.drop()
    }
  })

  test('is not restored into a database that was recorded into, and what is damaged is left out', async () => {
    const copy = await createTestDatabase()
    try {
      const [file] = await filesOf(archive.target, 'candles')
      await archive.target.remove(file?.path ?? '')
      const request = { tables: ['candles', 'fills'], pointers: await hintsOf(archive.target) }
      const { restored, problems } = await restoreArchive(copy.database, archive.target, request)
      expect(problems).toEqual([
        expect.stringMatching(/is missing; nothing of candles of 2026-03-02 was restored: bring/),
      ])
      expect(restored.map(({ table }) => table)).toContain('fills')
      await sql`truncate recorder.service`.execute(copy.database.db)
      await sql`insert into recorder.service (base_url, places) values ('https://api.example.com', '{here}')`.execute(
        copy.database.db,
      )
      await expect(restoreArchive(copy.database, archive.target, { ...request, tables: ['tickers'] })).rejects.toThrow(
        'a recorder has recorded https://api.example.com into this database',
      )
    } finally {
      await copy.drop()
    }
  })

  test('is written once: a second run finds nothing to do', async () => {
    const before = await readdir(archive.folder, { recursive: true })
    expect(await again()).toEqual({ written: [], due: [], problems: [] })
    expect(await readdir(archive.folder, { recursive: true })).toEqual(before)
  })

  test('shows a day anew in the partitions that changed, and the others as they were', async () => {
    const { db } = source.database
    const before = await filesOf(archive.target, 'fills')
    const coverage = await filesOf(archive.target, 'coverage')
    await insertFills(db, [aFill({ symbol: 'LATEUSDT', ts: from + hourMs, execId: 'late' })])
    const series = { stream: 'fills', category: 'SPOT', symbol: 'LATEUSDT', type: '', interval: '' } as const
    await addCoverage(db, series, [{ from, to: from + dayMs }])
    const changed = await again()
    expect(changed.written.map(({ table, day }) => [table, day])).toEqual([['fills', '2026-03-02']])
    expect((await verified()).problems).toEqual([])
    const isSame = (file: (typeof before)[number]) => file.divider !== 'SPOT' || file.day !== '2026-03-02'
    const paths = (files: typeof before) => files.filter(isSame).map(({ path }) => path)
    const after = await filesOf(archive.target, 'fills')
    expect(paths(after)).toEqual(paths(before))
    expect(after).toHaveLength(before.length)
    expect(after).not.toEqual(before)
    expect((await rowsOf(archive.target, 'fills')).filter(({ symbol }) => symbol === 'LATEUSDT')).toHaveLength(1)
    const untouched = (files: typeof before) => files.filter(({ divider }) => divider !== 'fills')
    expect(untouched(await filesOf(archive.target, 'coverage'))).toEqual(untouched(coverage))
    expect((await rowsOf(archive.target, 'coverage')).some(({ symbol }) => symbol === 'LATEUSDT')).toBe(true)
    await sql`delete from market.fills where symbol = 'LATEUSDT'`.execute(db)
    await sql`delete from recorder.ledger where verdict = 'recorded' and symbol = 'LATEUSDT'`.execute(db)
  })

  const row = (by: number) => sql`
    update market.tickers set last_price = last_price + ${by} where ts = (select min(ts) from market.tickers)`
  const claim = (how: '+' | '-') => sql`
    update recorder.ledger set ranges = ranges ${sql.raw(how)} '{[2026-03-02T20:00Z,2026-03-02T21:00Z)}'
    where stream = 'funding_rates' and verdict = 'recorded'`
  const gap = (verdict: string, settled: string | null) => sql`
    update recorder.ledger set verdict = ${verdict}, settled_at = ${settled}::timestamptz
    where stream = 'candles' and symbol = 'RAREUSDT' and reason = 'the service was away'`
  test.each([
    ['a row that nothing proves', row(1), row(-1), 'tickers'],
    ['a claim', claim('+'), claim('-'), 'funding_rates'],
    ['a gap', gap('lost', '2026-03-05Z'), gap('missing', null), 'candles'],
  ])('learns of %s that changed, and writes its day at most every six hours', async (_, change, undo, table) => {
    const { db } = source.database
    await change.execute(db)
    const { due, written: anew } = await again()
    expect(new Set(due.map((one) => one.table))).toEqual(new Set([table]))
    expect(anew).toContainEqual(expect.objectContaining({ table, day: '2026-03-02' }))
    expect((await verified()).problems).toEqual([])
    await undo.execute(db)
    const soon = { tables: marketTables, afterHours: 1, snapshotDays: 30 }
    expect((await runArchive(source.database, archive.target, soon, { now: () => later })).due).toEqual([])
    expect(new Set((await again()).due.map((one) => one.table))).toEqual(new Set([table]))
    expect((await again()).due).toEqual([])
  })

  test('is written by one at a time', async () => {
    await withArchiveLock(source.database.db, async () => {
      await expect(again()).rejects.toThrow('another archiver')
    })
    expect((await again()).written).toEqual([])
  })
})

describe('verify', () => {
  test('finds a damaged file, a missing one, and rows that differ, and has their days written anew', async () => {
    const [first, second] = await filesOf(archive.target, 'candles')
    const path = join(archive.folder, first?.path ?? '')
    const bytes = await readFile(path)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1
    await writeFile(path, bytes)
    await archive.target.remove(second?.path ?? '')
    const stray = 'market/fills/data/day=2026-03-02/category=SPOT/stray.parquet'
    await writeFile(join(archive.folder, stray), 'PAR1')
    const { problems } = await verified()
    expect(problems.join('\n')).toMatch(/is missing/)
    expect(problems.join('\n')).toMatch(/cannot be read|does not have the rows that were written/)
    expect(problems.at(-1)).toMatch(/the next market-recorder archive writes the day anew$/)
    await again()
    expect((await verified()).problems).toEqual([])
    expect(await pruneArchive(archive.target, await pointers(), { isDryRun: true })).toMatchObject({
      files: 1,
      bytes: 4,
    })
    await pruneArchive(archive.target, await pointers())
    expect((await archive.target.list('market/fills/')).map((one) => one.path)).not.toContain(stray)
    expect((await verified()).problems).toEqual([])
  })
})
