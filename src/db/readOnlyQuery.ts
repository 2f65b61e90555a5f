import pg from 'pg'
import { systemClock } from '../runtime/clock.js'
import type { DatabasePool } from './pool.js'

export interface QueryColumn {
  readonly name: string
  /** The server's short name of the type: int8, numeric, timestamptz, … */
  readonly type: string
}
/** Values in the server's own text form, exact, times in UTC; null is NULL. */
export type QueryRow = readonly (string | null)[]

interface BatchOptions {
  /** The server cancels the query if it has not sent all rows after this time. Default: no limit. */
  readonly timeoutMs?: number
  /** The largest number of rows in memory at once. */
  readonly batchRows: number
  readonly parameters?: readonly unknown[]
}

/** Time that the server has beyond the timeout to end a query by itself. */
const graceMs = 1_000

const declare = 'declare recorder_query no scroll cursor for '
const cursorKeywords = /^(select|with|values|table)\b/i
/** Matches EXPLAIN with its options, up to the statement that it explains. */
const explain = /^explain\b\s*(\([^()]*\)|(\b(analy[sz]e|verbose)\b\s*)*)/i

/**
 * Runs one statement that reads, in a read-only transaction, with bounded memory. `use` gets the rows in batches, at
 * its own pace. All rows show one state of the database. There is at least one batch, which may be empty.
 */
export async function readInBatches<Result>(
  database: DatabasePool,
  sql: string,
  { timeoutMs, batchRows, parameters = [] }: BatchOptions,
  use: (columns: readonly QueryColumn[], batches: AsyncIterable<readonly QueryRow[]>) => Promise<Result>,
): Promise<Result> {
  const statement = withoutLeadingComments(sql)
  const isCursor = isQuery(statement)
  if (!isCursor && !isShowOrExplain(statement)) {
    throw new Error('only one statement that reads is run here: SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW')
  }
  const client = await database.pool.connect()
  const stopTimer =
    timeoutMs === undefined ? undefined : systemClock.after(timeoutMs + graceMs, () => cancel(database, client))
  try {
    const endAt = timeoutMs === undefined ? undefined : systemClock.monotonicMs() + timeoutMs
    const timeLimit = () => {
      const restMs = endAt === undefined ? 0 : Math.max(1, Math.ceil(endAt - systemClock.monotonicMs()))
      return `set local statement_timeout = ${restMs}`
    }
    const utc = "set local timezone = 'UTC'"
    await client.query(`begin isolation level repeatable read read only; ${utc}; ${timeLimit()}`)
    // A cursor accepts only a query. Rows that are not fetched yet stay on the server.
    if (isCursor) await queryText(client, `${declare}${statement}`, parameters)
    const fetch = () => queryText(client, isCursor ? `fetch ${batchRows} from recorder_query` : statement, [])
    const first = await fetch()
    const names = await typeNames(client, first.fields)
    const columns = first.fields.map(({ name, dataTypeID }) => ({ name, type: names.get(dataTypeID) ?? 'unknown' }))
    return await use(columns, batchesFrom(first))

    async function* batchesFrom(result: pg.QueryArrayResult<(string | null)[]>) {
      let batch = result.rows
      yield batch
      if (!isCursor) return
      while (batch.length === batchRows) {
        if (endAt !== undefined) await client.query(timeLimit())
        batch = (await fetch()).rows
        yield batch
      }
    }
  } catch (error) {
    throw await explained(client, error)
  } finally {
    stopTimer?.()
    // The connection is closed, because a query can leave locks and settings in its session.
    client.release(true)
  }
}

/** Replaces the server's errors about several statements and about missing relations with clearer ones. */
async function explained(client: pg.PoolClient, error: unknown): Promise<unknown> {
  if (!(error instanceof pg.DatabaseError)) return error
  if (error.code === '42601' && error.routine === 'exec_parse_message') {
    return new Error('give one statement: there is another one behind the first semicolon', { cause: error })
  }
  if (error.code !== '42P01') return error
  await client.query('rollback').catch(() => undefined)
  return explainMissing(client.query.bind(client), error)
}

/** Returns the line of a statement with the server's error, and a caret below. Empty if the error has no place. */
export function errorExcerpt(sql: string, error: unknown): string[] {
  if (!(error instanceof pg.DatabaseError) || error.position === undefined) return []
  if (!['42601', '42703', '42883'].includes(error.code ?? '')) return []
  const statement = withoutLeadingComments(sql)
  const sentBefore = isQuery(statement) ? declare.length : 0
  // The server counts characters from 1, and without comments before the statement, which were not sent.
  const leftOut = Array.from(sql.slice(0, sql.indexOf(statement))).length
  return excerptAt(sql, leftOut + Number(error.position) - 1 - sentBefore)
}

/** Cancels a query that has lifted its own time limit. Every login may do so, and PostgreSQL cannot forbid it. */
function cancel(database: DatabasePool, client: pg.PoolClient): void {
  database.pool.query('select pg_cancel_backend($1)', [processIdOf(client)]).catch(() => undefined)
}

/** Runs a query and keeps the server's text of values. The extended protocol refuses several statements at once. */
export async function queryText(
  client: pg.PoolClient,
  text: string,
  values: readonly unknown[],
): Promise<pg.QueryArrayResult<(string | null)[]>> {
  const types = { getTypeParser: () => asText }
  const query = { text, values: [...values], rowMode: 'array' as const, queryMode: 'extended', types }
  return client.query<(string | null)[]>(query)
}

const asText = (value: string): string => value

export type ArrayElements = readonly (string | null | ArrayElements)[]

// Type of a text array. The driver's list of types has no arrays.
const textArrayOid = 1009 as number

/** Reads the server's text of an array of any type. The elements keep their text. */
export function parseArray(text: string): ArrayElements {
  const parse = pg.types.getTypeParser(textArrayOid) as (text: string) => ArrayElements
  return parse(text)
}

const builtinNames = new Map(Object.entries(pg.types.builtins).map(([name, oid]) => [oid, name.toLowerCase()]))

/** Returns the names of types by their id. The server is only queried about types that the driver does not know. */
async function typeNames(client: pg.PoolClient, fields: readonly pg.FieldDef[]): Promise<Map<number, string>> {
  const unknown = fields.map(({ dataTypeID }) => dataTypeID).filter((oid) => !builtinNames.has(oid))
  if (unknown.length === 0) return builtinNames
  const { rows } = await client.query<{ oid: string; name: string }>(
    'select oid::text, typname as name from pg_type where oid = any($1::oid[])',
    [unknown],
  )
  return new Map([...builtinNames, ...rows.map(({ oid, name }) => [Number(oid), name] as const)])
}

function isQuery(statement: string): boolean {
  return cursorKeywords.test(statement) || statement.startsWith('(')
}

/** Returns true for SHOW, and for EXPLAIN of a query. EXPLAIN ANALYZE runs its statement, which may also write. */
function isShowOrExplain(statement: string): boolean {
  if (/^show\b/i.test(statement)) return true
  const [beginning] = explain.exec(statement) ?? []
  return beginning !== undefined && isQuery(withoutLeadingComments(statement.slice(beginning.length)))
}

function withoutLeadingComments(sql: string): string {
  return sql.replace(/^(\s+|--[^\n]*(\n|$)|\/\*[\s\S]*?\*\/)+/, '').replace(/[\s;]+$/, '')
}

/** Codes of "relation … does not exist" and "schema … does not exist". */
const missingCodes: readonly unknown[] = ['42P01', '3F000']

/**
 * Resolves to an error with advice on a missing relation. A database without tables of the recorder needs a migration.
 * In any other one the name is misspelt. Other errors are returned as they are.
 *
 * @param query runs on the same database, outside of the failed transaction
 */
export async function explainMissing(query: pg.ClientBase['query'], error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !missingCodes.includes((error as { code?: unknown }).code)) return error
  const names = await relationNames(query).catch(() => null)
  if (names === null) return error
  if (names.length === 0) {
    return new Error(
      'the database has no tables of the recorder; run npx market-recorder migrate, or check DATABASE_URL and --data-dir',
      { cause: error },
    )
  }
  return new Error(`database: ${error.message}; the relations of schema market are ${names.join(', ')}`, {
    cause: error,
  })
}

/** Reads the names of the relations of schema `market` from catalogs that any login may read. */
async function relationNames(query: pg.ClientBase['query']): Promise<string[]> {
  const { rows } = await query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'market' and c.relkind in ('r', 'p', 'v', 'm') order by 1`,
  )
  return rows.map(({ name }) => name)
}

const width = 76

/** Returns the line of a text around a character, and a caret below it. A long line is cut around the character. */
export function excerptAt(text: string, index: number): string[] {
  // Counts code points as PostgreSQL does. JavaScript counts some characters as two.
  const characters = Array.from(text)
  const at = Math.max(0, Math.min(index, characters.length))
  const before = characters.slice(0, at)
  const lineBegin = before.lastIndexOf('\n') + 1
  const lineEnd = characters.indexOf('\n', at)
  const begin = Math.max(lineBegin, at - width / 2)
  const end = Math.min(lineEnd === -1 ? characters.length : lineEnd, begin + width)
  const label = `line ${before.filter((character) => character === '\n').length + 1}: `
  return [`${label}${characters.slice(begin, end).join('')}`, `${' '.repeat(label.length + at - begin)}^`]
}

/** Returns the id of the server's process for a client; null before it is connected. The types do not name it. */
function processIdOf(client: pg.ClientBase): number | null {
  return (client as unknown as { readonly processID: number | null }).processID
}
