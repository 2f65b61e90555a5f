import type pg from 'pg'
import type { RecorderDatabase } from './database.js'

export interface QueryResult {
  /** `type` is the server's short name of the type: int8, numeric, timestamptz, … */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** Values in the server's own text form, exact; null is NULL. */
  readonly rows: readonly (readonly (string | null)[])[]
  /** Whether there were more rows than `maxRows`. */
  readonly isTruncated: boolean
}

export interface QueryOptions {
  /** The server cancels the query after this time. */
  readonly timeoutMs: number
  /** Default: all of them. */
  readonly maxRows?: number
}

const cursorKeywords = /^(select|with|values|table)\b/i
const plainKeywords = /^(explain|show)\b/i

/** Runs one statement that reads, in a read-only transaction. Throws on any other, on a timeout and on errors of SQL. */
export async function runReadOnlyQuery(
  database: RecorderDatabase,
  sql: string,
  { timeoutMs, maxRows }: QueryOptions,
): Promise<QueryResult> {
  const statement = withoutLeadingComments(sql)
  const isCursor = cursorKeywords.test(statement) || statement.startsWith('(')
  if (!isCursor && !plainKeywords.test(statement)) {
    throw new Error('only one statement that reads is run here: SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW')
  }
  const client = await database.pool.connect()
  try {
    await client.query('begin read only')
    await client.query(`set local statement_timeout = ${Math.max(1, Math.ceil(timeoutMs))}`)
    // A cursor takes nothing but a query, and leaves on the server what is over the limit.
    if (isCursor) await queryText(client, `declare recorder_query no scroll cursor for ${statement}`)
    const limit = maxRows === undefined ? 'all' : String(maxRows + 1)
    const result = await queryText(client, isCursor ? `fetch ${limit} from recorder_query` : statement)
    const rows = maxRows === undefined ? result.rows : result.rows.slice(0, maxRows)
    const names = await typeNames(client, result.fields)
    return {
      columns: result.fields.map(({ name, dataTypeID }) => ({ name, type: names.get(dataTypeID) ?? 'unknown' })),
      rows,
      isTruncated: rows.length < result.rows.length,
    }
  } finally {
    // Not returned to the pool: a query can leave locks and settings behind in its session.
    client.release(true)
  }
}

/** The extended protocol refuses several statements in one text; the identity parsers keep the server's own text. */
async function queryText(client: pg.PoolClient, text: string): Promise<pg.QueryArrayResult<(string | null)[]>> {
  const query = { text, rowMode: 'array' as const, queryMode: 'extended', types: { getTypeParser: () => asText } }
  return client.query<(string | null)[]>(query)
}

const asText = (value: string): string => value

async function typeNames(client: pg.PoolClient, fields: readonly pg.FieldDef[]): Promise<Map<number, string>> {
  const { rows } = await client.query<{ oid: string; name: string }>(
    'select oid::text, typname as name from pg_type where oid = any($1::oid[])',
    [fields.map(({ dataTypeID }) => dataTypeID)],
  )
  return new Map(rows.map(({ oid, name }) => [Number(oid), name]))
}

function withoutLeadingComments(sql: string): string {
  return sql.replace(/^(\s+|--[^\n]*(\n|$)|\/\*[\s\S]*?\*\/)+/, '').replace(/[\s;]+$/, '')
}
