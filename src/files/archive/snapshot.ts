import type { RecorderDatabase } from '../../db/database.js'
import { type QueryRow, queryText } from '../../db/readOnlyQuery.js'

/** One state of the database for as many reads as it takes: rows and what is proven of them belong together. */
export interface Snapshot {
  query(text: string, values?: readonly unknown[]): Promise<readonly QueryRow[]>
  /** The same with any number of rows in bounded memory. */
  stream(text: string, values: readonly unknown[]): AsyncIterable<readonly QueryRow[]>
}

const rowsPerFetch = 2_000

export interface SnapshotOptions {
  /**
   * Whether what is there may be changed. It is then changed as it was read: what came later is not touched, and where somebody
   * else has changed it meanwhile the server refuses (40001). Default: the transaction is read-only.
   */
  readonly canWrite?: boolean
  /** Once it is aborted nothing more is asked. */
  readonly signal?: AbortSignal | undefined
}

/** Runs `work` in a transaction. Values come in the server's own text form, times in UTC. */
export async function withSnapshot<Result>(
  { pool }: RecorderDatabase,
  work: (snapshot: Snapshot) => Promise<Result>,
  { canWrite = false, signal }: SnapshotOptions = {},
): Promise<Result> {
  const client = await pool.connect()
  const query = async (text: string, values: readonly unknown[] = []) => {
    signal?.throwIfAborted()
    return (await queryText(client, text, values)).rows
  }
  try {
    await client.query(`begin isolation level repeatable read ${canWrite ? 'read write' : 'read only'};
      set local timezone = 'UTC'; set local jit = off; set local statement_timeout = 0`)
    const result = await work({
      query,
      async *stream(text, values) {
        await query(`declare archived_rows no scroll cursor for ${text}`, values)
        const fetch = () => {
          const rows = query(`fetch ${rowsPerFetch} from archived_rows`)
          // Whoever stops reading does not wait for what was fetched ahead, or for its failure.
          rows.catch(() => undefined)
          return rows
        }
        let next = fetch()
        for (;;) {
          const rows = await next
          const isLast = rows.length < rowsPerFetch
          // The server finds the rows behind these while they are worked on.
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
    // With its transaction, in whatever state that is.
    client.release(true)
    throw error
  }
}
