import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import { type Identity, loopback, noteService } from '../../db/identity.js'
import type { Database } from '../../db/schema.js'
import { sum } from '../../market/values.js'
import { groupBy } from '../../runtime/groupBy.js'
import { addingRanges } from '../../db/series.js'
import { type Pointers, type ShownFile, shownWithProof } from '../iceberg/catalog.js'
import { type ArchiveReader, type FileFooter, fileRows } from './file.js'
import { readOwner } from './owner.js'
import { type FileRow, serverRow, type StoredColumn, timeText } from '../layout/rowText.js'
import { tableColumns, withSnapshot } from './rows.js'
import { archivedTable, type Day, dayEnd, type DayRange, dayStart, proofTables } from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

interface RestoreRequest extends DayRange {
  readonly tables: readonly string[]
  readonly pointers: Pointers
}

interface RestoredDay {
  readonly table: string
  readonly day: Day
  readonly rows: number
}

interface RestoreOptions {
  readonly signal?: AbortSignal
  readonly onDay?: (day: RestoredDay) => void
}

interface RestoreResult {
  readonly restored: readonly RestoredDay[]
  /** Why days were not restored, one line each. The archive of these days is damaged. */
  readonly problems: readonly string[]
}

const rowsPerStatement = 2_000

/**
 * Fills a database with days and their proof, exactly as they are in the archive. Throws if the database has rows of
 * such a day, or if a recorder has recorded into it: nobody could say then which rows are right. Throws if a newer program
 * wrote the archive with more columns. Nothing is restored of a day whose archive is damaged.
 */
export async function restoreArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { tables, pointers, ...range }: RestoreRequest,
  { signal, onDay }: RestoreOptions = {},
): Promise<RestoreResult> {
  const reader = { target, signal }
  const restored: RestoredDay[] = []
  const problems: string[] = []
  await noteRestored(database.db, await readOwner(target))
  for (const table of tables) {
    const files = await shownWithProof(target, table, pointers, range)
    const days = [...groupBy(files, ({ day }) => day ?? '')].toSorted(([a], [b]) => (a < b ? -1 : 1))
    for (const [day] of days) await requireNoRows(database.db, table, day)
    for (const [day, own] of days) {
      try {
        await restoreDay(database, reader, table, own)
        const rows = sum(own.filter((file) => file.table === table).map((file) => file.rows))
        restored.push({ table, day, rows })
        onDay?.({ table, day, rows })
      } catch (error) {
        if (!(error instanceof DamagedArchive)) throw error
        const remedy = 'bring it back from a copy of the archive'
        problems.push(`${error.message}; nothing of ${table} of ${day} was restored: ${remedy}`)
      }
    }
  }
  return { restored, problems }
}

/** Notes whose rows the database is about to hold. Throws if a recorder has recorded, or if they are of another one. */
async function noteRestored(db: Kysely<Database>, owner: Identity | null): Promise<void> {
  const known = await db.selectFrom('recorder.service').select(['base_url', 'places']).executeTakeFirst()
  const ofItsOwn = 'restore into a database of its own'
  if (known !== undefined && known.base_url !== null && known.places.length > 0)
    throw new Error(`a recorder has recorded ${known.base_url} into this database: ${ofItsOwn}`)
  if (owner === null) return
  const other = await noteService(db, owner.service === loopback ? 'http://127.0.0.1' : `https://${owner.service}`)
  if (other !== null) throw new Error(`the database holds what ${other.baseUrl} sent: ${ofItsOwn}`)
}

async function requireNoRows(db: Kysely<Database>, table: string, day: Day): Promise<void> {
  const { timeColumn } = archivedTable(table)
  const time = sql.ref(timeColumn ?? '')
  const ofDay =
    timeColumn === undefined
      ? sql`true`
      : sql`${time} >= ${new Date(dayStart(day))}::timestamptz and ${time} < ${new Date(dayEnd(day))}::timestamptz`
  const { rows } = await sql`select from ${sql.table(`market.${table}`)} where ${ofDay} limit 1`.execute(db)
  if (rows.length === 0) return
  const which = timeColumn === undefined ? '' : ` of ${day}`
  throw new Error(`the database has rows of ${table}${which}: restore into a database that has none of these days`)
}

/** Restores a day and its proof in one transaction. */
async function restoreDay(
  database: RecorderDatabase,
  reader: ArchiveReader,
  table: string,
  files: readonly ShownFile[],
): Promise<void> {
  const described = await withSnapshot(database, (snapshot) => tableColumns(snapshot, archivedTable(table)))
  await database.db.transaction().execute(async (trx) => {
    for (const file of files) {
      for await (const { footer, rows } of fileRows(reader, file)) {
        if (file.table === table) requireColumns(file, footer, described)
        for (let i = 0; i < rows.length; i += rowsPerStatement) {
          const values = valuesOf(footer.columns, rows.slice(i, i + rowsPerStatement))
          if (file.table === table) await insertRows(trx, table, footer.columns, values)
          else await proofTakers[file.table]?.(trx, relationOf(footer.columns, values))
        }
      }
    }
  })
}

function requireColumns(file: ShownFile, { columns }: FileFooter, described: readonly StoredColumn[]): void {
  const foreign = columns.find((one) => !described.some(({ name, type }) => name === one.name && type === one.type))
  if (foreign === undefined) return
  const what = `${file.path} has a column ${foreign.name} ${foreign.type}, which the database does not have`
  throw new Error(`${what}: use the version of market-recorder that wrote the archive, or a newer one`)
}

/** Values of each column as text that the server reads. */
type Values = readonly (readonly (string | null)[])[]

export function valuesOf(columns: readonly StoredColumn[], rows: readonly FileRow[]): Values {
  const texts = rows.map(serverRow(columns))
  const isTime = columns.map(({ type }) => type === 'timestamptz')
  const text = (value: string | null | undefined, i: number) =>
    value === null || value === undefined ? null : isTime[i] === true ? timeText(BigInt(value)) : value
  return columns.map((_, i) => texts.map((row) => text(row[i], i)))
}

/** A relation with the rows of a file, whose columns have their types and names. */
export function relationOf(columns: readonly StoredColumn[], values: Values) {
  const arrays = values.map((texts) => sql`${texts}::text[]`)
  const list = columns.map(
    (column) => sql`cast(${sql.ref(`v.${column.name}`)} as ${castOf(column)}) as ${sql.ref(column.name)}`,
  )
  const names = columns.map(({ name }) => sql.ref(name))
  return sql`(select ${sql.join(list)} from unnest(${sql.join(arrays)}) as v (${sql.join(names)}))`
}

async function insertRows(
  db: Kysely<Database>,
  table: string,
  columns: readonly StoredColumn[],
  values: Values,
): Promise<void> {
  const names = sql.join(columns.map(({ name }) => sql.ref(name)))
  await sql`
    insert into ${sql.table(`market.${table}`)} (${names}) select ${names} from ${relationOf(columns, values)} as r`.execute(
    db,
  )
}

function castOf({ type }: StoredColumn) {
  if (type === '_numeric') return sql`numeric[]`
  // All other types of these columns are enums of the schema market.
  const isBuiltIn = ['text', 'numeric', 'timestamptz', 'bool', 'int2', 'int4', 'int8', 'jsonb'].includes(type)
  return isBuiltIn ? sql.ref(type) : sql.ref(`market.${type}`)
}

export const ledgerKey = sql.raw(
  `r.stream, r.category::market.category, r.symbol, coalesce(r.type, ''), coalesce(r.interval, '')`,
)
const candleKey = sql.raw(
  'r.category::market.category, r.symbol, r.type::market.candle_type, r.interval::market.candle_interval',
)

export type Relation = ReturnType<typeof relationOf>
export type Take = (db: Kysely<Database>, relation: Relation) => Promise<unknown>

const keyOfRanges = sql.raw('stream, category, symbol, type, interval, verdict')

/** Brings rows of a table of proof back to where they came from. */
export const proofTakers: Readonly<Record<string, Take>> = {
  coverage: (db, relation) =>
    sql`
      insert into recorder.ledger as k (${keyOfRanges}, ranges)
      select ${ledgerKey}, 'recorded', range_agg(tstzrange(r.from_time, r.to_time)) from ${relation} as r
      group by 1, 2, 3, 4, 5 ${addingRanges}`.execute(db),
  // Silence is kept in parts of 1,440 candles.
  no_trade: (db, relation) =>
    sql`
      insert into recorder.ledger as k (${keyOfRanges}, part, ranges)
      select ${ledgerKey}, case when r.is_confirmed then 'no trade' else 'silent' end,
        date_bin(market.interval_length(r.interval::market.candle_interval) * 1440, r.from_time, timestamptz 'epoch'),
        range_agg(tstzrange(r.from_time, r.to_time))
      from ${relation} as r group by 1, 2, 3, 4, 5, 6, 7 ${addingRanges}`.execute(db),
  gaps: takeGaps,
  candle_revisions: takeOfCandles('candle_revision', ['open_time', 'revised_at'], {
    set: sql`is_restatement = true`,
    where: sql`r.is_restatement and not k.is_restatement`,
  }),
  // A restatement grows as long as more of its candles are found.
  restatements: takeOfCandles('restatement', ['detected_at'], {
    set: sql`from_time = r.from_time, to_time = r.to_time, candles = r.candles`,
    where: sql`r.candles > k.candles`,
  }),
}

/**
 * Returns a function that inserts the rows that the database does not have. It updates those of which the archive knows
 * more. `times` tell the rows of a series apart.
 */
function takeOfCandles(
  table: 'candle_revision' | 'restatement',
  times: readonly string[],
  more: { readonly set: RawBuilder<unknown>; readonly where: RawBuilder<unknown> },
): Take {
  const columns = proofTables.find(({ name }) => name === `${table}s`)?.columns.slice(5) ?? []
  const listed = (alias: string) => sql.join(columns.map(({ name }) => sql.ref(`${alias}${name}`)))
  const timesOf = (alias: string) => sql.join(times.map((name) => sql.ref(`${alias}.${name}`)))
  const own = sql.table(`recorder.${table}`)
  const isSame = sql`(k.category, k.symbol, k.type, k.interval, ${timesOf('k')}) = (${candleKey}, ${timesOf('r')})`
  return (db, relation) =>
    sql`
      with given as materialized (select * from ${relation} as r),
      grown as (update ${own} k set ${more.set} from given r where ${isSame} and ${more.where})
      insert into ${own} (category, symbol, type, interval, ${listed('')})
      select ${candleKey}, ${listed('r.')} from given r where not exists (select from ${own} k where ${isSame})`.execute(
      db,
    )
}

/**
 * Brings back gaps. A piece that goes on where a day before has ended becomes a part of the same gap. Of two gaps with the
 * same beginning, the longer one stays.
 */
async function takeGaps(db: Kysely<Database>, relation: Relation): Promise<void> {
  const verdict = sql.raw(`case r.state when 'open' then 'missing' else r.state end`)
  const key = sql.raw('g.stream, g.category, g.symbol, g.type, g.interval, g.verdict, g.from_time')
  // Rows that are there already repair nothing.
  const counted = sql.raw(`recorder.count_rows(g.stream, g.category, g.symbol, g.type, g.interval,
    tstzmultirange(tstzrange(g.from_time, g.to_time)))`)
  await sql`
    with pieces as materialized (select ${ledgerKey}, ${verdict} as verdict, r.from_time, r.to_time, r.reason,
        r.filled_from, r.detected_at, r.settled_at from ${relation} as r),
    given as (select * from pieces as p (stream, category, symbol, type, interval, verdict, from_time, to_time, reason,
        filled_from, detected_at, settled_at)),
    joined as (
      update recorder.ledger k set ranges = tstzmultirange(tstzrange(k.part, g.to_time)),
        rows_before = k.rows_before + ${counted} from given g
      where k.stream = g.stream and k.category = g.category and k.symbol = g.symbol and k.type = g.type
        and k.interval = g.interval and k.verdict = g.verdict and upper(k.ranges) = g.from_time
        and k.reason = g.reason and k.noted_at = g.detected_at
      returning g.*)
    insert into recorder.ledger as k
      (stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, filled_from,
       rows_before)
    select distinct on (${key}) ${key},
      tstzmultirange(tstzrange(g.from_time, g.to_time)), g.reason, g.detected_at, g.settled_at, g.filled_from,
      ${counted}
    from given g where not exists (
      select from joined j where (j.stream, j.category, j.symbol, j.type, j.interval, j.verdict, j.from_time, j.reason)
        = (${key}, g.reason))
    order by ${key}, g.to_time desc
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`.execute(db)
  await takeEvidence(db, relation)
}

/** Notes the evidence again that has left gaps: minute by minute of candles, and of rows what lies in a minute. */
async function takeEvidence(db: Kysely<Database>, relation: Relation): Promise<void> {
  await sql`
    insert into recorder.ledger (${keyOfRanges}, part, ranges, reason, noted_at)
    select ${ledgerKey}, verdict, lower(against), tstzmultirange(against), r.reason, r.detected_at
    from ${relation} as r
    cross join lateral recorder.evidence_of(r.reason) as verdict
    cross join lateral generate_series(date_trunc('minute', r.from_time, 'UTC'), r.to_time - interval '1 microsecond',
      interval '1 minute') as minute
    cross join lateral tstzrange(minute, minute + interval '1 minute') as whole
    cross join lateral (select case verdict when 'contradicted' then whole
      else whole * tstzrange(r.from_time, r.to_time) end) as e (against)
    where r.state in ('open', 'lost') and verdict is not null
    on conflict do nothing`.execute(db)
}
