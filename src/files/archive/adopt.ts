import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import { minuteMs } from '../../market/values.js'
import { groupBy } from '../../runtime/groupBy.js'
import { movePointer, readHints, readPointers, type ShownFile, shownFiles } from '../iceberg/catalog.js'
import { publishedTables } from '../iceberg/tables.js'
import { type ArchiveFile, type Day, dayEnd, dayOf, dayStart, proofTables } from '../layout/tables.js'
import type { ArchiveTarget } from '../layout/target.js'
import type { FileRow } from '../layout/rowText.js'
import { fileRows } from './file.js'
import { requireSameService, takeOwnership } from './owner.js'
import { ledgerKey, proofTakers, type Relation, relationOf, type Take, valuesOf } from './restore.js'
import { withArchiveLock } from './state.js'

const rowsPerStatement = 2_000

/**
 * Takes over an archive that knows more than its database. Every file is read first, so nothing damaged is taken over.
 * What the archive has of rows and coverage becomes final. Gaps, revisions, restatements and lists come back into the
 * database, which goes on with them. The pointers are moved last. A call that was stopped can be repeated.
 */
export async function adoptArchive(
  db: Kysely<Database>,
  target: ArchiveTarget,
  signal?: AbortSignal,
): Promise<{ readonly days: number }> {
  return withArchiveLock(db, async () => {
    await requireSameService(db, target)
    const [before, hints] = [await readPointers(db), await readHints(target)]
    const found: { readonly source: string; readonly day: Day; readonly file: ArchiveFile }[] = []
    // Coverage and gaps come first: what they hold needs no moments of its own.
    const isProof = ({ divider }: { readonly divider: string }) => divider === 'stream'
    for (const table of publishedTables.toSorted((a, b) => Number(isProof(b)) - Number(isProof(a)))) {
      for (const shown of await shownFiles(target, table, hints)) {
        const { sha256, day } = await readFile(db, { target, signal }, shown)
        const proof = proofTables.find(({ name }) => name === table.name)
        const isFinal = shown.day !== null && proof?.isOwnedForGood !== true
        const { path, divider, rows, bytes } = shown
        const file: ArchiveFile = { path, table: table.name, divider, rows, bytes, sha256, symbols: ['', ''], isFinal }
        found.push({ source: table.divider === 'stream' ? divider : table.name, day: shown.day ?? day, file })
      }
    }
    const days = groupBy(found, ({ source, day }) => `${source} ${day}`)
    await db.transaction().execute(async (trx) => {
      await sql`delete from recorder.archived_day`.execute(trx)
      for (const own of days.values()) {
        const [{ source, day } = { source: '', day: dayOf(0) }] = own
        const files = JSON.stringify(own.map(({ file }) => file))
        const isRemoved = own.some(({ file }) => file.isFinal)
        if (!own.some(({ file }) => file.table === 'gaps')) await forgetGaps(trx, source, day)
        // The next run appends the rows of the day that only the database has.
        await sql`
          insert into recorder.archived_day (table_name, day, files, archived_at, due_at, removed_at)
          values (${source}, ${day}::date, ${files}::jsonb, now(), now(), case when ${isRemoved} then now() end)`.execute(
          trx,
        )
      }
      for (const [name, to] of hints) await movePointer(trx, { name, from: before.get(name) ?? null, to })
    })
    await noteUnknownFills(db)
    await takeOwnership(db, target)
    return { days: days.size }
  })
}

/** Reads a file whole, and brings what the database needs to know of it there. */
async function readFile(
  db: Kysely<Database>,
  reader: { readonly target: ArchiveTarget; readonly signal: AbortSignal | undefined },
  shown: ShownFile,
): Promise<{ readonly sha256: string; readonly day: Day }> {
  const { table, divider, day } = shown
  if (table === 'gaps' && day !== null) await forgetGaps(db, divider, day)
  let read = { sha256: '', day: day ?? dayOf(0) }
  const minutes = day === null ? null : await contradictedMinutes(db, { table, divider, day })
  for await (const { footer, rows } of fileRows(reader, shown)) {
    read = { sha256: footer.sha256, day: footer.day }
    const comesBack = minutes === null ? () => true : isOfMinutes(minutes, shown, footer.columns)
    const parts = [
      [takeRows(table, footer.columns), rows.filter(comesBack)],
      [takers[table], rows.filter((row) => !comesBack(row))],
    ] as const
    for (const [take, taken] of parts) {
      if (take === undefined) continue
      for (let i = 0; i < taken.length; i += rowsPerStatement) {
        const values = valuesOf(footer.columns, taken.slice(i, i + rowsPerStatement))
        await take(db, relationOf(footer.columns, values))
      }
    }
  }
  return read
}

const minuteOf = (ms: number) => Math.floor(ms / minuteMs)

/**
 * Resolves to the minutes whose candle contradicts the fills, of a file of either. That ends only when rows agree, so
 * these rows come back.
 */
async function contradictedMinutes(
  db: Kysely<Database>,
  { table, divider, day }: Pick<ShownFile, 'table' | 'divider'> & { readonly day: Day },
): Promise<ReadonlySet<string>> {
  if (table !== 'fills' && table !== 'candles') return new Set()
  const { rows } = await sql<{ symbol: string; part: number }>`
    select symbol, part from recorder.ledger
    where stream = 'fills' and category = ${divider} and verdict = 'contradicted'
      and part >= ${new Date(dayStart(day))} and part < ${new Date(dayEnd(day))}`.execute(db)
  return new Set(rows.map(({ symbol, part }) => `${symbol} ${minuteOf(part)}`))
}

/** Returns a function that tells fills of these minutes, and their candles. */
function isOfMinutes(
  minutes: ReadonlySet<string>,
  { table }: ShownFile,
  columns: readonly { readonly name: string }[],
): (row: FileRow) => boolean {
  // Most files have no such minute, and an archive has millions of rows.
  if (minutes.size === 0) return () => false
  const place = (column: string) => columns.findIndex(({ name }) => name === column)
  const [symbol, type, interval] = [place('symbol'), place('type'), place('interval')]
  const time = place(table === 'fills' ? 'ts' : 'open_time')
  return (row) =>
    minutes.has(`${String(row[symbol])} ${minuteOf(Number(row[time]) / 1000)}`) &&
    (table === 'fills' || (row[type] === 'market' && row[interval] === '1m'))
}

/** Takes a day out of the gaps of a stream, whose archive knows better what came of it. */
async function forgetGaps(db: Kysely<Database>, stream: string, day: Day): Promise<void> {
  const range = sql`tstzrange(${new Date(dayStart(day))}, ${new Date(dayEnd(day))})`
  const kept = sql.raw('stream, category, symbol, type, interval, verdict')
  const values = sql.raw('reason, noted_at, settled_at, filled_from')
  await sql`
    with forgotten as (
      delete from recorder.ledger
      where stream = ${stream} and verdict in ('missing', 'lost', 'repaired') and ranges && ${range} returning *
    )
    insert into recorder.ledger as k (${kept}, part, ranges, ${values}, rows_before)
    select distinct on (${kept}, lower(r)) ${kept}, lower(r), tstzmultirange(r), ${values},
      least(rows_before, recorder.count_rows(stream, category, symbol, type, interval, tstzmultirange(r)))
    from forgotten cross join lateral unnest(ranges - tstzmultirange(${range})) as r
    order by ${kept}, lower(r), upper(r) desc
    on conflict (${kept}, part) do update
      set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`.execute(db)
}

/** Notes as gaps of fills what is between what is known of them: nothing was recorded after the archive. */
async function noteUnknownFills(db: Kysely<Database>): Promise<void> {
  const why = 'the archive that was adopted ends before what this database recorded'
  await db.transaction().execute(async (trx) => {
    await sql`
      select recorder.lock_fills(array_agg(category), array_agg(symbol)) from (
        select distinct category, symbol from recorder.ledger
        where stream = 'fills' and verdict in ('recorded', 'final')) as series`.execute(trx)
    await sql`
      select recorder.note_unknown('fills', category, symbol, '', '',
        tstzmultirange(range_merge(known)) - known, ${why})
      from (
        select category, symbol, range_agg(r) as known from recorder.ledger cross join lateral unnest(ranges) as r
        where stream = 'fills' and verdict in ('recorded', 'final') group by category, symbol
      ) as series`.execute(trx)
  })
}

/** Begins a statement with `adopted`: for each series, the ranges of those rows of coverage or gaps that count. */
function adopting(relation: Relation, condition: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    with given as materialized (
      select ${ledgerKey}, range_agg(tstzrange(r.from_time, r.to_time)) from ${relation} as r
      where ${condition} group by 1, 2, 3, 4, 5
    ), adopted as (
      select * from given as g (stream, category, symbol, type, interval, parts)
    )`
}

/** Withdraws what the database claims of `adopted`, silence included. */
const withdrawing = sql.raw(`
  update recorder.ledger k set ranges = k.ranges - a.parts from adopted a
  where k.stream = a.stream and k.category = a.category and k.symbol = a.symbol and k.type = a.type
    and k.interval = a.interval and k.verdict in ('recorded', 'silent', 'no trade') and k.ranges && a.parts`)

/** Makes coverage final. It is no claim of the database any more, whose rows of it are others or none. */
async function takeCoverage(db: Kysely<Database>, relation: Relation): Promise<void> {
  await sql`
    ${adopting(relation, sql`true`)}, withdrawn as (${withdrawing})
    select recorder.add_final(stream, category, symbol, type, interval, parts) from adopted`.execute(db)
}

/** Brings gaps back. What the database claims of them was withdrawn later: a response has to show it again. */
async function takeGaps(db: Kysely<Database>, relation: Relation): Promise<void> {
  await sql`${adopting(relation, sql`r.state in ('open', 'lost')`)} ${withdrawing}`.execute(db)
  await proofTakers['gaps']?.(db, relation)
}

/** Makes final the moments of rows that no claim has, as a removal does. */
function takeMoments(stream: string): Take {
  const source = sql.raw(stream === 'fills' ? 'r.source::text' : 'null')
  return (db, relation) =>
    sql`
    select recorder.add_final(${stream}, category, symbol, '', '', moments) from (
      select r.category, r.symbol,
        range_agg(recorder.moment_of(${stream}, r.category, r.symbol, r.ts, ${source})) as moments
      from ${relation} as r left join recorder.ledger f
        on (f.stream, f.category, f.symbol, f.type, f.interval) = (${stream}, r.category, r.symbol, '', '')
          and f.verdict = 'final' and f.part = '-infinity'
      where not coalesce(f.ranges @> r.ts, false) group by r.category, r.symbol
    ) as unclaimed`.execute(db)
}

/** Coverage does not come back as it was, and neither does silence. */
const takers: Readonly<Record<string, Take | undefined>> = {
  ...proofTakers,
  coverage: takeCoverage,
  gaps: takeGaps,
  no_trade: undefined,
  fills: takeMoments('fills'),
  funding_rates: takeMoments('funding_rates'),
  liquidations: takeMoments('liquidations'),
}

/** Returns a function that inserts the rows that the database does not have. */
function takeRows(table: string, columns: readonly { readonly name: string }[]): Take {
  const names = sql.join(columns.map(({ name }) => sql.ref(name)))
  return (db, relation) =>
    sql`insert into ${sql.table(`market.${table}`)} (${names}) select ${names} from ${relation} as r
      on conflict do nothing`.execute(db)
}
