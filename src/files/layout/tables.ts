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
 * Returns SQL that finds the first or last time. No table has an index on the time alone. In chunks, the time is looked
 * for in the outermost one, and elsewhere only if that one is empty. A plain table is stepped through by key.
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
