import { type Kysely, sql } from 'kysely'
import { lockNames, withSessionLock } from '../../db/locks.js'
import type { Database } from '../../db/schema.js'
import { systemClock } from '../../runtime/clock.js'
import type { ArchiveFile, Day } from '../layout/tables.js'

/** Runs `work` as the only archiver of a database. The lock ends with its session, also after a crash. */
export async function withArchiveLock<Result>(db: Kysely<Database>, work: () => Promise<Result>): Promise<Result> {
  const refusal = () => new Error('another archiver of this database is at work: wait until it has ended')
  return withSessionLock(db, lockNames.archive, work, { refusal })
}

/** Record that the database keeps of a day of a table in the archive. */
export interface ArchivedDay {
  readonly day: Day
  /** Files of the day: of the table, and of the proof that is about the table. */
  readonly files: readonly ArchiveFile[]
  /** True if the day must be written, by now or later: somebody has written to it since it was archived. */
  readonly isChanged: boolean
  /** True if its files are as they were written, as far as is known. */
  readonly isArchived: boolean
  /** True if its rows were removed from the database. Others may have come since. */
  readonly isRemoved: boolean
}

export async function readArchivedDays(db: Kysely<Database>, table: string, day?: Day): Promise<Map<Day, ArchivedDay>> {
  const all = archivedDays(db, table)
  const rows = await (day === undefined ? all : all.where('recorder.archived_day.day', '=', day)).execute()
  return new Map(rows.map((row) => [row.day, row as unknown as ArchivedDay]))
}

/** Time between two writings of a day. A day that is due later than that was noted before the clock was set back. */
const pause = sql.raw(`interval '6 hours'`)
const isDue = sql<boolean>`coalesce(due_at <= now() or due_at > now() + ${pause}, false)`

function archivedDays(db: Kysely<Database>, table: string) {
  return db
    .selectFrom('recorder.archived_day')
    .select([
      'files',
      sql<string>`day::text`.as('day'),
      sql<boolean>`due_at is not null or exists (
        select from recorder.changed_day c where (c.table_name, c.day) = (archived_day.table_name, archived_day.day))`.as(
        'isChanged',
      ),
      sql<boolean>`archived_at is not null`.as('isArchived'),
      sql<boolean>`removed_at is not null`.as('isRemoved'),
    ])
    .where('table_name', '=', table)
    .orderBy('recorder.archived_day.day')
}

/** Reads the due days of a table, ascending. */
export async function readDueDays(db: Kysely<Database>, table: string): Promise<ArchivedDay[]> {
  const rows = await archivedDays(db, table).where(isDue).execute()
  return rows as unknown as ArchivedDay[]
}

/** Resolves to the newest day that is noted, whether it is written or only due; null if there is none. */
export async function newestNotedDay(db: Kysely<Database>, table: string): Promise<Day | null> {
  const { rows } = await sql<{ day: string | null }>`
    select max(day)::text as day from recorder.archived_day where table_name = ${table}`.execute(db)
  return rows[0]?.day ?? null
}

/** Notes days that are to be written. From then on, a write to one of them marks it as due. */
export async function noteNewDays(db: Kysely<Database>, table: string, days: readonly Day[]): Promise<void> {
  await sql`
    insert into recorder.archived_day (table_name, day, due_at)
    select ${table}, unnest(${days}::text[])::date, now() on conflict do nothing`.execute(db)
}

/**
 * Makes due the days that were written to since they were archived, at most every six hours a day. A mark counts from
 * the next call of `waitForWriters` on.
 */
export async function takeMarks(db: Kysely<Database>): Promise<void> {
  await sql`
    with marks as (delete from recorder.changed_day returning table_name, day)
    insert into recorder.archived_day as a (table_name, day, due_at)
    select distinct table_name, day, now() from marks
    on conflict (table_name, day) do update
      set due_at = least(a.due_at, greatest(least(a.archived_at, now()) + ${pause}, excluded.due_at))`.execute(db)
}

/** Longest wait for transactions that were open when days were noted. */
const maxWaitMs = 60_000
const askEveryMs = 50

/**
 * Waits until every transaction has ended that may have written before days were noted, and so without a mark. Such a
 * transaction locks the tables that it writes. Throws if one stays open.
 */
export async function waitForWriters(db: Kysely<Database>): Promise<void> {
  const since = systemClock.monotonicMs()
  let open: readonly string[] | null = null
  for (;;) {
    const { rows } = await sql<{ id: string; pid: number | null }>`
      select distinct virtualtransaction as id, pid from pg_locks
      where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
        and database = (select oid from pg_database where datname = current_database())
        and relation in (
          select oid from pg_class where relnamespace in ('market'::regnamespace, 'recorder'::regnamespace))`.execute(
      db,
    )
    const left: typeof rows = rows.filter(({ id }) => open?.includes(id) ?? true)
    const [first] = left
    if (first === undefined) return
    if (systemClock.monotonicMs() - since > maxWaitMs) {
      throw new Error(
        `process ${first.pid ?? 'of a prepared transaction'} has been writing in one transaction for a minute: end it; the same command goes on from here`,
      )
    }
    open = left.map(({ id }) => id)
    await systemClock.sleep(askEveryMs)
  }
}

/** Notes what the archive has of a day. Call it in the transaction that moves the pointers. */
export async function noteArchivedDay(
  db: Kysely<Database>,
  table: string,
  { day, files }: Pick<ArchivedDay, 'day' | 'files'>,
): Promise<void> {
  const text = JSON.stringify(files)
  await sql`
    insert into recorder.archived_day (table_name, day, files, archived_at)
    values (${table}, ${day}::date, ${text}::jsonb, now())
    on conflict (table_name, day) do update set files = excluded.files, archived_at = now(), due_at = null`.execute(db)
}

/** Leaves only this day of a table that is archived whole. */
export async function forgetOtherDays(db: Kysely<Database>, table: string, day: Day): Promise<void> {
  await sql`delete from recorder.archived_day where table_name = ${table} and day <> ${day}::date`.execute(db)
}

/** Makes a day due at once, because the archive was found to differ. All its files that are not final are replaced. */
export async function makeDayDue(db: Kysely<Database>, table: string, day: Day): Promise<void> {
  await sql`
    update recorder.archived_day set due_at = now(), archived_at = null where table_name = ${table} and day = ${day}::date`.execute(
    db,
  )
}

/** Notes in the transaction that removes the rows of a day that its files are final. */
export async function noteRemovedDay(
  db: Kysely<Database>,
  table: string,
  { day, files }: Pick<ArchivedDay, 'day' | 'files'>,
): Promise<void> {
  await sql`
    update recorder.archived_day set files = ${JSON.stringify(files)}::jsonb, removed_at = now()
    where table_name = ${table} and day = ${day}::date`.execute(db)
}

/** Notes files that hold the rows of others now, wherever these are noted. */
export async function replaceFiles(
  db: Kysely<Database>,
  replaced: readonly { readonly path: string; readonly file: ArchiveFile }[],
): Promise<void> {
  if (replaced.length === 0) return
  const map = Object.fromEntries(replaced.map(({ path, file }) => [path, { path: file.path, bytes: file.bytes }]))
  await sql`
    update recorder.archived_day a set files = (
      select jsonb_agg(f || coalesce(${JSON.stringify(map)}::jsonb -> (f ->> 'path'), '{}') order by place)
      from jsonb_array_elements(a.files) with ordinality as e (f, place))
    where exists (select from jsonb_array_elements(a.files) as f where ${JSON.stringify(map)}::jsonb ? (f ->> 'path'))`.execute(
    db,
  )
}

/** Removes the marks that this transaction left by making a day final. That changes nothing for the archive. */
export async function takeBackMarks(transaction: Kysely<Database>, table: string): Promise<void> {
  await sql`
    delete from recorder.changed_day
    where table_name = ${table} and xmin = pg_current_xact_id()::xid`.execute(transaction)
}

/** Resolves to the oldest day before another one that is marked; null if there is none. */
export async function oldestMark(db: Kysely<Database>, table: string, before: Day): Promise<Day | null> {
  const { rows } = await sql<{ day: string | null }>`
    select min(day)::text as day from recorder.changed_day
    where table_name = ${table} and day < ${before}::date`.execute(db)
  return rows[0]?.day ?? null
}
