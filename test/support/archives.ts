import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { fileRows } from '../../src/files/archive/file.js'
import { serverRow } from '../../src/files/layout/rowText.js'
import { type Pointers, readHints, type ShownFile, shownFiles } from '../../src/files/iceberg/catalog.js'
import { publishedTable } from '../../src/files/iceberg/tables.js'
import { runArchive } from '../../src/files/archive/run.js'
import { marketTables } from '../../src/market/stream.js'
import { type ArchiveTarget, folderTarget } from '../../src/files/layout/target.js'
import type { RecorderDatabase } from '../../src/db/database.js'

/** An archive in a folder of its own. */
export async function temporaryArchive(): Promise<{ target: ArchiveTarget; folder: string; drop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-archive-'))
  const drop = () => rm(folder, { recursive: true, force: true })
  return { target: folderTarget(folder), folder, drop }
}

/** The tables of which there is anything: to look through all others takes longer than to archive these. */
async function usedTables({ db }: RecorderDatabase): Promise<string[]> {
  const isUsed = (name: string) => sql`
    select ${name} as name where exists (select from ${sql.table(`market.${name}`)})
      or exists (select from recorder.ledger where stream = ${name})
      or exists (select from recorder.archived_day where table_name = ${name})`
  const { rows } = await sql<{ name: string }>`${sql.join(marketTables.map(isUsed), sql` union all `)}`.execute(db)
  return rows.map(({ name }) => name)
}

/** Archives everything that has ended by `now`. Days that changed are written as if six hours had passed. */
export async function archiveAll(
  database: RecorderDatabase,
  target: ArchiveTarget,
  now: number,
  options: Partial<Parameters<typeof runArchive>[2]> = {},
) {
  await sql`
    update recorder.archived_day set archived_at = archived_at - interval '6 hours', due_at = due_at - interval '6 hours'`.execute(
    database.db,
  )
  try {
    const tables = options.tables ?? (await usedTables(database))
    const request = { afterHours: 1, snapshotDays: 30, ...options, tables }
    return await runArchive(database, target, request, { now: () => now })
  } finally {
    await target.close()
  }
}

/** The pointers that the archive itself has, as readers by path find them. */
export function hintsOf(target: ArchiveTarget) {
  return readHints(target)
}

/** The files that a table shows, by path. */
export async function filesOf(target: ArchiveTarget, table: string, pointers?: Pointers) {
  return shownFiles(target, publishedTable(table), pointers ?? (await hintsOf(target)))
}

export type ShownRow = Readonly<Record<string, string | null>>

/** The rows that a table shows, as text that the server would have sent: the columns by their names, times in µs. */
export async function rowsOf(target: ArchiveTarget, table: string): Promise<ShownRow[]> {
  const found: ShownRow[] = []
  for (const file of await filesOf(target, table)) found.push(...(await rowsOfFile(target, file)))
  return found
}

/** The same of a folder, where files that have stayed as they were since an earlier call are not read again. */
export async function rowsOfFolder(
  target: ArchiveTarget,
  table: string,
  known: Map<string, ShownRow[]>,
  pointers: Pointers,
) {
  const found: ShownRow[] = []
  for (const file of await filesOf(target, table, pointers)) {
    const { mtimeMs, size } = await stat(join(target.name, file.path))
    const key = JSON.stringify([file, mtimeMs, size])
    const rows = known.get(key) ?? (await rowsOfFile(target, file))
    known.set(key, rows)
    found.push(...rows)
  }
  return found
}

async function rowsOfFile(target: ArchiveTarget, file: ShownFile): Promise<ShownRow[]> {
  const found: ShownRow[] = []
  for await (const { footer, rows } of fileRows({ target }, file)) {
    for (const values of rows.map(serverRow(footer.columns)))
      found.push(Object.fromEntries(footer.columns.map(({ name }, i) => [name, values[i] ?? null])))
  }
  return found
}

const bookkeeping: Readonly<Record<string, string>> = {
  'recorder.ledger':
    'stream, category, symbol, type, interval, verdict, part, ranges, reason, ' +
    'case when reason is not null then noted_at end as noted_at, settled_at, filled_from',
  'recorder.candle_revision':
    'category, symbol, type, interval, open_time, revised_at, old_open, new_open, old_close, new_close, is_restatement',
  'recorder.restatement': 'category, symbol, type, interval, from_time, to_time, numerator, denominator, detected_at',
}

/** Every row that an archive has to bring back, by table, as text: decimals without zeros at the end. */
export async function everything({ db }: RecorderDatabase): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  const market = marketTables.map((name): [string, string] => [`market.${name}`, '*'])
  for (const [table, columns] of [...market, ...Object.entries(bookkeeping)]) {
    const { rows } = await sql<{ row: string }>`
      select regexp_replace(to_jsonb(t)::text, '(\\.\\d*?)0+(?=[^\\d])', '\\1', 'g') as row
      from (select ${sql.raw(columns)} from ${sql.table(table)}) t`.execute(db)
    // 1. and 1 are the same number, too.
    found[table] = rows.map(({ row }) => row.replaceAll(/\.(?=[^\d])/g, '')).toSorted()
  }
  return found
}

/** An archive that does some work when its first file is read: while a day is compared. */
export function disturbed(target: ArchiveTarget, work: () => Promise<void>): ArchiveTarget {
  let isDone = false
  const fetch = async (path: string) => {
    if (!isDone) {
      isDone = true
      await work()
    }
    return target.fetch(path)
  }
  return { ...target, fetch }
}
