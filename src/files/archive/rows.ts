import type { QueryRow } from '../../db/readOnlyQuery.js'
import type { ParquetColumn } from '../parquet/columns.js'
import type { Snapshot } from './snapshot.js'
import { seriesByKey } from '../../db/timeTables.js'
import { type ArchivedTable, type Day, dayEnd, dayStart } from './tables.js'

/** The rows of a day as they stand after "from", or all of a table that is kept as a whole. */
export function rowsOfDay({ name, timeColumn }: ArchivedTable, day: Day): { sql: string; parameters: unknown[] } {
  if (timeColumn === undefined) return { sql: `market.${name} t`, parameters: [] }
  return {
    sql: `market.${name} t where t.${timeColumn} >= $1::timestamptz and t.${timeColumn} < $2::timestamptz`,
    parameters: [new Date(dayStart(day)), new Date(dayEnd(day))],
  }
}

/** The symbols that have rows in a day, by category, both in the order of their bytes. */
export async function symbolsOfDay(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  isHypertable: boolean,
): Promise<Map<string, string[]>> {
  const { sql, parameters } = rowsOfDay(table, day)
  const rows =
    table.timeColumn === undefined || isHypertable
      ? await snapshot.query(`select distinct t.category, t.symbol from ${sql}`, parameters)
      : await snapshot.query(alongTheKey(table), parameters)
  const symbols = new Map<string, string[]>()
  for (const [category, symbol] of rows) {
    const known = symbols.get(category ?? '')
    if (known === undefined) symbols.set(category ?? '', [symbol ?? ''])
    else known.push(symbol ?? '')
  }
  const sorted = [...symbols].toSorted(([a], [b]) => (a < b ? -1 : 1))
  return new Map(sorted.map(([category, known]) => [category, known.toSorted((a, b) => (a < b ? -1 : 1))]))
}

/** A plain table has no index on the time alone: each series is found by a step in the key, and asked for one row of the day. */
function alongTheKey(table: ArchivedTable): string {
  const { keyOf, series } = seriesByKey(table)
  return `
    with recursive ${series}
    select distinct s.category, s.symbol from series s where exists (
      select from market.${table.name} t
      where (${keyOf('t')}) = (${keyOf('s')}) and t.${table.timeColumn} >= $1::timestamptz and t.${table.timeColumn} < $2::timestamptz)`
}

/** The rows of these symbols, symbol by symbol as they are given, each in the order of the table. */
export async function* rowsOf(
  snapshot: Snapshot,
  table: ArchivedTable,
  columns: readonly ParquetColumn[],
  selection: { readonly day: Day; readonly category: string; readonly symbols: readonly string[] },
): AsyncIterable<readonly QueryRow[]> {
  const { day, category, symbols } = selection
  const { name, timeColumn, order } = table
  const list = columns.map((column) => `${column.expression(`t."${column.name}"`)} as "${column.name}"`)
  const times =
    timeColumn === undefined ? '' : `and t.${timeColumn} >= $3::timestamptz and t.${timeColumn} < $4::timestamptz`
  const sort = order.length === 0 ? '' : `order by ${order.map((column) => `t.${column}`).join(', ')}`
  const sql = `
    select q.* from unnest($2::text[]) as k (symbol) cross join lateral (
      select ${list.join(', ')} from market.${name} t
      where t.category = $1::market.category and t.symbol = k.symbol ${times} ${sort} offset 0
    ) as q`
  const range = timeColumn === undefined ? [] : [new Date(dayStart(day)), new Date(dayEnd(day))]
  const place = new Map(symbols.map((symbol, index) => [symbol, index]))
  const symbolColumn = columns.findIndex((column) => column.name === 'symbol')
  let last = -1
  for await (const batch of snapshot.stream(sql, [category, symbols, ...range])) {
    for (const row of batch) {
      const index = place.get(row[symbolColumn] ?? '') ?? -1
      // The digest of a day is one of its rows in their order, which the server is trusted to keep but never promised.
      if (index < last)
        throw new Error(`${name} came in another order than it was asked for: report this with your server's version`)
      last = index
    }
    yield batch
  }
}
