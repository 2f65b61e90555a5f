import { type Kysely, type RawBuilder, sql } from 'kysely'
import { snakeCase } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { seriesByKey } from '../../db/series.js'
import {
  isOfVersions,
  type MarketTable,
  marketTables,
  type StreamName,
  streamTraits,
  type TimeTable,
  timeTables,
  type VersionStream,
} from '../../market/stream.js'
import { addMs, dayMs, type FieldType, serviceMs, type ServiceMs } from '../../market/values.js'
import { hasHypertables } from '../../server/timescale/server.js'
import type { StoredColumn } from './rowText.js'

/** A table of schema `market` that is archived. */
export interface ArchivedTable {
  readonly name: MarketTable
  /** Stream under which coverage and gaps are recorded; null if another table has them. */
  readonly stream: StreamName | null
  /** Column by which rows are split into days. Absent for a table that is archived whole. */
  readonly timeColumn?: string
  /** Columns of the key that name the series of a row. */
  readonly seriesColumns: readonly string[]
  /** SQL for the rows `t` that are archived. A candle that still forms is none of them. */
  readonly isSettled: string
  /** Order of the rows of an instrument. It is the same on every server. */
  readonly order: readonly string[]
}

const instrument = ['category', 'symbol']
/** Texts are sorted by their bytes, because otherwise the rules of a database apply. */
const bytewise = ' collate "C"'

const archivedTables: readonly ArchivedTable[] = marketTables.map((name) => {
  const timeTable = timeTables.find((table) => table.name === name)
  if (timeTable !== undefined) return byDay(timeTable)
  if (name === 'instrument_history')
    return { name, stream: null, seriesColumns: instrument, isSettled: 'true', order: ['valid_from'] }
  const order = name === 'instruments' ? [] : ['valid_from', ...(isOfVersions(name) ? keyFieldOrder(name) : [])]
  return { name, stream: name, seriesColumns: instrument, isSettled: 'true', order }
})

function keyFieldOrder(stream: VersionStream): string[] {
  const { keyFields, fields } = streamTraits[stream]
  const types: Readonly<Record<string, FieldType>> = fields
  return keyFields.map((field) => `${snakeCase(field)}${types[field] === 'text' ? bytewise : ''}`)
}

function byDay({ name, timeColumn, seriesColumns, orderColumns }: TimeTable): ArchivedTable {
  const columns = [...seriesColumns.slice(2), ...orderColumns]
  return {
    name: name,
    stream: name,
    timeColumn,
    seriesColumns,
    isSettled: name === 'candles' ? 't.is_closed' : 'true',
    order: columns.map((column) => (column === 'exec_id' ? `${column}${bytewise}` : column)),
  }
}

export function archivedTable(name: string): ArchivedTable {
  const found = archivedTables.find((table) => table.name === name)
  if (found === undefined) throw new Error(`${name} is not a table that is archived: ${marketTables.join(', ')}`)
  return found
}

/** A day in UTC, such as `2026-03-01`. */
export type Day = string

export function dayOf(time: number): Day {
  return new Date(time).toISOString().slice(0, 10)
}

export function dayStart(day: Day): ServiceMs {
  return serviceMs(Date.parse(`${day}T00:00:00Z`))
}

export function dayEnd(day: Day): ServiceMs {
  return addMs(dayStart(day), dayMs)
}

/** Lists the days from the day of `from` to the last one that has ended by `to`. */
export function daysBetween(from: number, to: number): Day[] {
  const days: Day[] = []
  for (let start = Math.floor(from / dayMs) * dayMs; start + dayMs <= to; start += dayMs) days.push(dayOf(start))
  return days
}

/** A range of days. Without an end, it is open. */
export interface DayRange {
  readonly from?: Day | undefined
  /** The day after the last one. */
  readonly to?: Day | undefined
}

export function isInRange(day: Day, { from, to }: DayRange): boolean {
  return (from === undefined || day >= from) && (to === undefined || day < to)
}

/** Finds the oldest time with a row or, by default, with proof; null if there is none. */
export async function firstTime(
  db: Kysely<Database>,
  table: ArchivedTable,
  { withProof = true }: { readonly withProof?: boolean } = {},
): Promise<number | null> {
  const { rows } = await sql<{ first: number | null }>`
    select min(t) as first from (
      select t from (${await endOfRows(db, table, 'min')}) as oldest
      union all
      select from_time from market.coverage where stream = ${table.name} and ${withProof}
    ) as found where t > '-infinity'`.execute(db)
  return rows[0]?.first ?? null
}

/** Finds the newest time with a row or proof; null if there is none. A restatement belongs to when it was noticed. */
export async function lastTime(db: Kysely<Database>, table: ArchivedTable): Promise<number | null> {
  const { name } = table
  const { rows } = await sql<{ last: number | null }>`
    select max(t) as last from (
      select t from (${await endOfRows(db, table, 'max')}) as newest
      union all
      -- A range ends before its end, which may be the beginning of a day without anything.
      select to_time - interval '1 microsecond' from (
        select to_time from market.coverage where stream = ${name}
        union all
        select to_time from market.gaps where stream = ${name}
        union all
        select to_time from market.no_trade where ${name} = 'candles'
      ) as ends
      union all
      select detected_at from market.restatements where stream = ${name}
    ) as found where t < 'infinity'`.execute(db)
  return rows[0]?.last ?? null
}

/**
 * Returns SQL that finds the first or last time. No table has an index on the time alone. Of chunks, it reads the
 * outermost one, and others only if that is empty. A plain table is stepped through by key.
 */
async function endOfRows(db: Kysely<Database>, table: ArchivedTable, end: 'min' | 'max'): Promise<RawBuilder<unknown>> {
  const { name, timeColumn = '', isSettled } = table
  if (await hasHypertables(db)) {
    const found = `select ${end}(${timeColumn}) from market.${name} t where ${isSettled}`
    const bound = end === 'min' ? '< (select min(range_end)' : '>= (select max(range_start)'
    return sql.raw(`
      select coalesce((${found} and ${timeColumn} ${bound} from timescaledb_information.chunks
        where hypertable_schema = 'market' and hypertable_name = '${name}')), (${found})) as t`)
  }
  const { keyOf, series } = seriesByKey(table)
  return sql.raw(`
    with recursive ${series}
    select ${end}(o.t) as t from series s cross join lateral (
      select t.${timeColumn} as t from market.${name} t where (${keyOf('t')}) = (${keyOf('s')}) and ${isSettled}
      order by t.${timeColumn} ${end === 'min' ? 'asc' : 'desc'} limit 1
    ) o`)
}

/** A file of rows in the archive. `recorder.archived_day` keeps it, and the snapshot of its table names it. */
export interface ArchiveFile {
  /** Path from the root of the archive. */
  readonly path: string
  /** Table that shows the rows: an archived table, or a table of proof. */
  readonly table: string
  /** Value of the second column of the partition: a category, or the stream that a proof is about. */
  readonly divider: string
  readonly rows: number
  readonly bytes: number
  /** SHA-256 of the rows, which does not depend on the types of the file. */
  readonly sha256: string
  /** Lowest and highest symbol. */
  readonly symbols: readonly [string, string]
  /** True if its rows are final. No run replaces them. */
  readonly isFinal: boolean
}

/** A table of proof. Its rows of a day come from the ledger alone, or from what the ledger refers to. */
interface ProofTable {
  readonly name: string
  readonly timeColumn: string
  /** Columns after those of the series. */
  readonly columns: readonly StoredColumn[]
  /** SQL for the rows of a stream ($1) of the time from $2 to $3: the series, and `columns` in their stored form. */
  readonly sql: string
  /** True if its rows stay in the database when the rows of the day leave, and may change afterwards. */
  readonly isOwnedForGood: boolean
}

const columnsOf = (type: string, names: readonly string[]): StoredColumn[] => names.map((name) => ({ name, type }))
const series = columnsOf('text', ['category', 'symbol', 'stream', 'type', 'interval'])
const values = ['open', 'high', 'low', 'close', 'base_volume', 'quote_turnover']
const revised = ['old', 'new'].flatMap((when) => values.map((name) => `${when}_${name}`))

const micros = (time: string) => `(extract(epoch from ${time}) * 1000000)::bigint`
const seriesOf = (stream: string) =>
  `k.category::text, k.symbol, ${stream}, nullif(k.type::text, ''), nullif(k.interval::text, '')`
const inOrder = (last: string) =>
  `order by k.category::text, k.symbol collate "C", k.type::text, k.interval::text, ${last}`

/** SQL for the ranges of verdicts, each range with the day in which it begins. Candles belong to the day they open in. */
const ranges = (verdicts: string, more: { readonly select: string; readonly group: string }) => `
  select ${seriesOf('k.stream')}, ${micros('lower(r)')}, ${micros('upper(r)')}${more.select}
  from (
    select k.category, k.symbol, k.stream, k.type, k.interval${more.group}, range_agg(p) as parts
    from recorder.ledger k
    cross join lateral unnest(recorder.part_of_day(k.ranges, k.interval, $2::timestamptz, $3::timestamptz)) as p
    where k.stream = $1 and k.verdict in (${verdicts}) and k.part < $3::timestamptz
      and k.ranges && tstzrange($2::timestamptz, $3::timestamptz)
    group by k.category, k.symbol, k.stream, k.type, k.interval${more.group}
  ) k cross join lateral unnest(k.parts) as r
  ${inOrder('lower(r)')}`

function rangeTable(name: string, more: readonly StoredColumn[], sql: string, isOwnedForGood = false): ProofTable {
  const columns = [...columnsOf('timestamptz', ['from_time', 'to_time']), ...more]
  return { name, timeColumn: 'from_time', columns, sql, isOwnedForGood }
}

/** All tables of proof, with the columns of their series first. */
export const proofTables: readonly ProofTable[] = [
  rangeTable('coverage', [], ranges(`'recorded'`, { select: '', group: '' })),
  rangeTable(
    'no_trade',
    columnsOf('bool', ['is_confirmed']),
    ranges(`'silent', 'no trade'`, { select: `, k.verdict = 'no trade'`, group: ', k.verdict' }),
  ),
  rangeTable(
    'gaps',
    [
      ...columnsOf('text', ['reason', 'state', 'filled_from']),
      ...columnsOf('timestamptz', ['detected_at', 'settled_at']),
    ],
    `select ${seriesOf('k.stream')}, ${micros('greatest(k.part, $2::timestamptz)')},
       ${micros('least(upper(k.ranges), $3::timestamptz)')}, k.reason,
       case k.verdict when 'missing' then 'open' else k.verdict end, k.filled_from, ${micros('k.noted_at')},
       ${micros('k.settled_at')}
     from recorder.ledger k
     where k.stream = $1 and k.verdict in ('missing', 'lost', 'repaired')
       and k.ranges && tstzrange($2::timestamptz, $3::timestamptz)
     ${inOrder('k.part, upper(k.ranges), k.verdict')}`,
    true,
  ),
  {
    name: 'candle_revisions',
    timeColumn: 'open_time',
    columns: [
      ...columnsOf('timestamptz', ['open_time', 'revised_at']),
      ...columnsOf('numeric', revised),
      ...columnsOf('bool', ['is_restatement']),
    ],
    sql: `
      select ${seriesOf('$1::text')}, ${micros('k.open_time')}, ${micros('k.revised_at')},
        ${revised.map((name) => `k.${name}`).join(', ')}, k.is_restatement
      from recorder.candle_revision k
      where $1 = 'candles' and k.open_time >= $2::timestamptz and k.open_time < $3::timestamptz
      ${inOrder('k.open_time, k.revised_at, k.id')}`,
    isOwnedForGood: true,
  },
  {
    name: 'restatements',
    timeColumn: 'detected_at',
    columns: [
      ...columnsOf('timestamptz', ['from_time', 'to_time']),
      ...columnsOf('numeric', ['numerator', 'denominator']),
      ...columnsOf('int8', ['candles']),
      ...columnsOf('timestamptz', ['detected_at']),
    ],
    sql: `
      select ${seriesOf('$1::text')}, ${micros('k.from_time')}, ${micros('k.to_time')}, k.numerator, k.denominator,
        k.candles, ${micros('k.detected_at')}
      from recorder.restatement k
      where $1 = 'candles' and k.detected_at >= $2::timestamptz and k.detected_at < $3::timestamptz
      ${inOrder('k.from_time, k.to_time, k.detected_at, k.id')}`,
    isOwnedForGood: true,
  },
].map((table) => ({ ...table, columns: [...series, ...table.columns] }))
