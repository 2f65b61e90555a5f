import type { DatabasePool } from '../../src/db/pool.js'
import { type QueryColumn, type QueryRow, readInBatches } from '../../src/db/readOnlyQuery.js'

interface QueryResult {
  readonly columns: readonly QueryColumn[]
  readonly rows: readonly QueryRow[]
  /** True when the query had more rows than `maxRows`. */
  readonly isTruncated: boolean
}

interface QueryOptions {
  /** The server cancels the query if it has not sent all rows after this time. */
  readonly timeoutMs: number
  /** Largest number of rows to read. Default: all rows. */
  readonly maxRows?: number
}

/** Runs one reading statement in a read-only transaction. Throws on other statements, timeouts and errors of SQL. */
export async function runReadOnlyQuery(
  database: DatabasePool,
  sql: string,
  { timeoutMs, maxRows = Infinity }: QueryOptions,
): Promise<QueryResult> {
  const batchRows = Math.min(maxRows + 1, 10_000)
  return readInBatches(database, sql, { timeoutMs, batchRows }, async (columns, batches) => {
    const rows: QueryRow[] = []
    for await (const batch of batches) {
      for (const row of batch) rows.push(row)
      if (rows.length > maxRows) break
    }
    return { columns, rows: rows.length > maxRows ? rows.slice(0, maxRows) : rows, isTruncated: rows.length > maxRows }
  })
}
