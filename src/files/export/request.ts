import type { DatabasePool } from '../../db/pool.js'
import { type QueryColumn, readInBatches } from '../../db/readOnlyQuery.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { quoteName } from '../parquet/columns.js'
import type { ExportFormat } from './files.js'

/** Source of an export: a relation of schema `market`, or a query. */
export interface ExportSource {
  /** Name of the relation, or `query`. It is part of file names. */
  readonly name: string
  /** SQL text that follows "from". */
  readonly sql: string
  readonly columns: readonly QueryColumn[]
  /** Column by whose time rows are split into days. Absent if the source has no such column or no instruments. */
  readonly timeColumn?: string
}

/** Columns by which rows can be split into days. The first one that exists is used. */
const timeColumns = ['ts', 'open_time', 'from_time']

/** Reads the columns of a relation or query. Throws if it does not exist, or if a statement writes. */
export async function describeSource(database: DatabasePool, what: string): Promise<ExportSource> {
  const relation = /^(?:market\.)?([a-z_][a-z0-9_]*)$/.exec(what.trim())?.[1]
  const sql = relation === undefined ? `(${withoutEnd(what)}\n) as q` : `market.${relation} as q`
  const options = { batchRows: 1, timeoutMs: 60_000 }
  const columns = await readInBatches(database, `select * from ${sql} limit 0`, options, (found) =>
    Promise.resolve(found),
  )
  const names = new Set(columns.map(({ name }) => name))
  if (names.size < columns.length) throw new Error('two columns have the same name: give each its own with "as"')
  const hasInstrument = names.has('category') && names.has('symbol')
  const timeColumn = hasInstrument ? timeColumns.find((name) => names.has(name)) : undefined
  return { name: relation ?? 'query', sql, columns, ...(timeColumn !== undefined && { timeColumn }) }
}

interface Selection {
  readonly from: Date
  readonly to: Date
  /** Categories whose rows are selected. Default: all. */
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
}

/** A statement of the server, with the values of its parameters. */
interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Builds the statement for the selected rows, ordered by instrument and time. `expression` gives each column. */
export function selectRows(
  source: ExportSource,
  expression: (column: QueryColumn, quoted: string) => string,
  selection: Selection,
): Statement {
  const list = source.columns.map((column) => {
    const quoted = quoteName(column.name)
    return `${expression(column, `q.${quoted}`)} as ${quoted}`
  })
  const { sql, parameters } = selectedRows(source, selection)
  const { timeColumn } = source
  const order = timeColumn === undefined ? '' : ` order by q.category, q.symbol, q.${quoteName(timeColumn)}`
  return { sql: `select ${list.join(', ')} from ${sql}${order}`, parameters }
}

/** Builds the SQL text for the selected rows that follows "from". */
export function selectedRows({ sql, timeColumn }: ExportSource, selection: Selection): Statement {
  if (timeColumn === undefined) return { sql, parameters: [] }
  const time = `q.${quoteName(timeColumn)}`
  const parameters: unknown[] = [selection.from, selection.to]
  const conditions = [`${time} >= $1::timestamptz`, `${time} < $2::timestamptz`]
  if (selection.categories !== undefined) {
    conditions.push(`q.category = any($${parameters.push(selection.categories)}::market.category[])`)
  }
  if (selection.symbols !== undefined) {
    conditions.push(`q.symbol = any($${parameters.push(selection.symbols)}::text[])`)
  }
  return { sql: `${sql} where ${conditions.join(' and ')}`, parameters }
}

/** Reads all symbols that the recorder knows, to match patterns against them. */
export async function knownSymbols(database: DatabasePool): Promise<string[]> {
  const { rows } = await database.pool.query<{ symbol: string }>(
    'select symbol from market.instruments union select symbol from market.coverage order by 1',
  )
  return rows.map(({ symbol }) => symbol)
}

function withoutEnd(sql: string): string {
  return sql.replace(/[\s;]+$/, '')
}

export interface ExportRequest {
  /** The relation or query, as the user gave it. */
  readonly what: string
  readonly source: ExportSource
  readonly folder: string
  readonly format: ExportFormat
  /** Beginning of the range, `to` is its end (exclusive). Only for sources that are split into days. */
  readonly from?: TimeMs
  readonly to?: TimeMs
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
  /** Patterns that chose the symbols. A later call with the same patterns continues, even if new symbols match them. */
  readonly symbolPatterns?: readonly string[]
  /** True to begin again in a folder that holds another export. */
  readonly isOverwriting?: boolean
}

export interface Part {
  /** Name of the part: a day, or `all`. */
  readonly name: string
  readonly from: TimeMs
  readonly to: TimeMs
}

export function partsOf({ source, from, to }: ExportRequest, now: TimeMs): Part[] {
  if (source.timeColumn === undefined) return [{ name: 'all', from: 0, to: now }]
  if (from === undefined || to === undefined)
    throw new Error('rows with a time are exported from one moment to another')
  const parts: Part[] = []
  for (let day = Math.floor(from / dayMs) * dayMs; day < to; day += dayMs) {
    const name = new Date(day).toISOString().slice(0, 10)
    parts.push({ name, from: Math.max(from, day), to: Math.min(to, day + dayMs) })
  }
  return parts
}

export function selectionOf(
  { categories, symbols }: ExportRequest,
  { from, to }: { readonly from: TimeMs; readonly to: TimeMs },
): Selection {
  return {
    from: new Date(from),
    to: new Date(to),
    ...(categories && { categories }),
    ...(symbols && { symbols }),
  }
}
