import type { RecorderDatabase } from '../../db/database.js'
import { type QueryColumn, type QueryRow, queryText } from '../../db/readOnlyQuery.js'
import { seriesByKey } from '../../db/series.js'
import { groupBy } from '../../runtime/groupBy.js'
import { type ParquetColumn, quoteName } from '../parquet/columns.js'
import { type ArchivedTable, type Day, dayEnd, dayStart } from '../layout/tables.js'

/** One state of the database for any number of reads, so that rows and their proof match. */
export interface Snapshot {
  query(text: string, values?: readonly unknown[]): Promise<readonly QueryRow[]>
  /** Reads any number of rows in bounded memory. Only one stream may be open at a time. */
  stream(text: string, values: readonly unknown[]): AsyncIterable<readonly QueryRow[]>
}

const rowsPerFetch = 2_000

interface SnapshotOptions {
  /** Table whose rows are read. Without it, no rows of the market are read. */
  readonly table?: ArchivedTable
  /** After an abort, no further statement is sent. */
  readonly signal?: AbortSignal | undefined
}

/** Runs `work` in a transaction that only reads. Values come in the server's own text form, times in UTC. */
export async function withSnapshot<Result>(
  { pool }: Pick<RecorderDatabase, 'pool'>,
  work: (snapshot: Snapshot) => Promise<Result>,
  { table, signal }: SnapshotOptions = {},
): Promise<Result> {
  const client = await pool.connect()
  const query = async (text: string, values: readonly unknown[] = []) => {
    signal?.throwIfAborted()
    return (await queryText(client, text, values)).rows
  }
  try {
    await client.query(`begin isolation level repeatable read read only;
      set local timezone = 'UTC'; set local jit = off; set local statement_timeout = 0`)
    // Rows that move into chunks are hidden from an older snapshot. This lock waits for the move, or keeps it waiting.
    if (table !== undefined) await client.query(`lock table only market.${table.name} in access share mode`)
    const result = await work({
      query,
      async *stream(text, values) {
        await query(`declare archived_rows no scroll cursor for ${text}`, values)
        const fetch = () => {
          const rows = query(`fetch ${rowsPerFetch} from archived_rows`)
          // A reader that stops early does not await this fetch. The handler prevents an unhandled rejection.
          rows.catch(() => undefined)
          return rows
        }
        let next = fetch()
        for (;;) {
          const rows = await next
          const isLast = rows.length < rowsPerFetch
          // The server fetches the next rows while the caller works on these.
          if (!isLast) next = fetch()
          if (rows.length > 0) yield rows
          if (isLast) break
        }
        await query('close archived_rows')
      },
    })
    await client.query('commit')
    client.release()
    return result
  } catch (error) {
    // Close the connection, because the state of its transaction is unknown.
    client.release(true)
    throw error
  }
}

/** Reads the columns of a table. Computed columns are left out, because readers compute them too. */
export async function tableColumns(snapshot: Snapshot, { name }: ArchivedTable): Promise<QueryColumn[]> {
  const rows = await snapshot.query(
    `select a.attname, t.typname from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum`,
    [`market.${name}`],
  )
  return rows.map(([column, type]) => ({ name: column ?? '', type: type ?? '' }))
}

/** Returns SQL after "from" that selects the rows of a day. For a table that is archived whole, it selects all rows. */
export function rowsOfDay(
  { name, timeColumn, isSettled }: ArchivedTable,
  day: Day,
): { sql: string; parameters: unknown[] } {
  if (timeColumn === undefined) return { sql: `market.${name} t where true`, parameters: [] }
  return {
    sql: `market.${name} t where t.${timeColumn} >= $1::timestamptz and t.${timeColumn} < $2::timestamptz and ${isSettled}`,
    parameters: [new Date(dayStart(day)), new Date(dayEnd(day))],
  }
}

/** Finds the symbols with rows on a day, by category. Both are sorted by their bytes. */
export async function symbolsOfDay(snapshot: Snapshot, table: ArchivedTable, day: Day): Promise<Map<string, string[]>> {
  const { sql, parameters } = rowsOfDay(table, day)
  const isPlain = table.timeColumn !== undefined && !(await hasChunks(snapshot))
  const text = isPlain ? alongTheKey(table) : `select distinct t.category, t.symbol from ${sql}`
  const rows = await snapshot.query(text, parameters)
  const sorted = [...groupBy(rows, ([category]) => category ?? '')].toSorted(([a], [b]) => (a < b ? -1 : 1))
  return new Map(sorted.map(([category, own]) => [category, own.map(([, symbol]) => symbol ?? '').toSorted(byBytes)]))
}

/** Returns true if tables are split into chunks by time. Reading a day of such a table needs no index. */
async function hasChunks(snapshot: Snapshot): Promise<boolean> {
  return (await snapshot.query(`select from pg_extension where extname = 'timescaledb'`)).length > 0
}

export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Returns SQL that finds series by steps in the key. A plain table has no index on the time alone. */
function alongTheKey(table: ArchivedTable): string {
  const { keyOf, series } = seriesByKey(table)
  return `
    with recursive ${series}
    select distinct s.category, s.symbol from series s where exists (
      select from market.${table.name} t
      where (${keyOf('t')}) = (${keyOf('s')}) and t.${table.timeColumn} >= $1::timestamptz and t.${table.timeColumn} < $2::timestamptz
        and ${table.isSettled})`
}

/** Reads the rows of these symbols, in the order given. The rows of each symbol have the order of the table. */
export async function* rowsOf(
  snapshot: Snapshot,
  table: ArchivedTable,
  columns: readonly ParquetColumn[],
  selection: { readonly day: Day; readonly category: string; readonly symbols: readonly string[] },
): AsyncIterable<readonly QueryRow[]> {
  const { day, category, symbols } = selection
  const { name, order } = table
  const list = columns.map((column) => {
    const quoted = quoteName(column.name)
    return `${column.expression(`t.${quoted}`)} as ${quoted}`
  })
  const { sql: rows, parameters } = rowsOfDay(table, day)
  const values = [...parameters, category, symbols]
  const sort = order.length === 0 ? '' : `order by ${order.map((column) => `t.${column}`).join(', ')}`
  const sql = `
    select q.* from unnest($${values.length}::text[]) as k (symbol) cross join lateral (
      select ${list.join(', ')} from ${rows}
        and t.category = $${values.length - 1}::market.category and t.symbol = k.symbol ${sort} offset 0
    ) as q`
  const ranks = new Map(symbols.map((symbol, index) => [symbol, index]))
  const symbolColumn = columns.findIndex((column) => column.name === 'symbol')
  let last = -1
  for await (const batch of snapshot.stream(sql, values)) {
    for (const row of batch) {
      const index = ranks.get(row[symbolColumn] ?? '') ?? -1
      // The digest depends on the order of rows. The server has kept this order so far, but does not promise it.
      if (index < last)
        throw new Error(`${name} came in another order than it was asked for: report this with your server's version`)
      last = index
    }
    yield batch
  }
}
