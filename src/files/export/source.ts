import type { DatabasePool } from '../../db/pool.js'
import { type QueryColumn, readInBatches } from '../../db/readOnlyQuery.js'
import { quoteName } from '../parquet/columns.js'

/** What is exported: a relation of schema `market`, or a query. */
export interface ExportSource {
  /** What files are called. */
  readonly name: string
  /** As it stands after "from". */
  readonly sql: string
  readonly columns: readonly QueryColumn[]
  /** The time by which it is cut into days; absent where it has none, or no instruments. */
  readonly timeColumn?: string
}

/** Times by which rows are cut into days, the first of them that there is. */
const timeColumns = ['ts', 'open_time', 'from_time']

/** Finds out what a relation or query has. Throws on one that does not exist, and on statements that write. */
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

export interface Selection {
  readonly from: Date
  readonly to: Date
  /** Absent: all of them. */
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
}

/** A statement of the server, with the values of its parameters. */
export interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** The statement that gives the selected rows, instrument by instrument in the order of time, each column as `expression` says. */
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

/** The selected rows as they stand after "from". */
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

/** Every symbol that the recorder knows, for patterns to choose from. */
export async function knownSymbols(database: DatabasePool): Promise<string[]> {
  const { rows } = await database.pool.query<{ symbol: string }>(
    'select symbol from market.instruments union select symbol from market.coverage order by 1',
  )
  return rows.map(({ symbol }) => symbol)
}

function withoutEnd(sql: string): string {
  return sql.replace(/[\s;]+$/, '')
}
