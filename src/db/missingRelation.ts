import { closest, distance } from 'fastest-levenshtein'
import type pg from 'pg'

/** "relation … does not exist" and "schema … does not exist". */
const missingCodes: readonly unknown[] = ['42P01', '3F000']

/**
 * Resolves to an error to throw instead of the server's, with advice on a missing relation. Other errors are returned
 * as they are. A database without tables of the recorder needs a migration. In any other one the name is misspelt.
 *
 * @param query asks the same database, outside of the transaction that failed
 */
export async function explainMissing(query: pg.ClientBase['query'], error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !missingCodes.includes((error as { code?: unknown }).code)) return error
  const names = await relationNames(query).catch(() => null)
  if (names === null) return error
  if (names.length === 0) {
    return new Error(
      'the database has no tables of the recorder; run market-recorder migrate, or check DATABASE_URL and --data-dir',
      { cause: error },
    )
  }
  const near = nearest(error.message, names)
  return new Error(
    `database: ${error.message}; ${near === null ? `the relations of schema market are ${names.join(', ')}` : `did you mean market.${near}?`}`,
    { cause: error },
  )
}

/** Reads the names of the relations of schema `market` from catalogs that any login may read. */
async function relationNames(query: pg.ClientBase['query']): Promise<string[]> {
  const { rows } = await query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'market' and c.relkind in ('r', 'p', 'v', 'm') order by 1`,
  )
  return rows.map(({ name }) => name)
}

/** The name that was probably meant by the one that the message quotes. */
function nearest(message: string, names: readonly string[]): string | null {
  const wanted = /"(?:market\.)?([^"]+)"/.exec(message)?.[1]
  if (wanted === undefined) return null
  const name = closest(wanted.toLowerCase(), names)
  return distance(wanted.toLowerCase(), name) <= Math.max(2, wanted.length / 3) ? name : null
}
