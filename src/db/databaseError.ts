import pg from 'pg'
import { fieldStreams, isOfVersions, streamTraits } from '../market/stream.js'
import type { FieldType } from '../market/values.js'
import { messageOf } from '../runtime/text.js'
import { snakeCase } from './columns.js'

/** Fields that the driver and the operating system add to an error. */
interface ErrorDetails {
  readonly code?: unknown
  readonly detail?: unknown
  readonly hint?: unknown
  readonly address?: unknown
  readonly port?: unknown
  readonly constraint?: unknown
}

const advice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there; is the server running, and are host and port right?',
  ENOTFOUND: 'that host name does not exist; check the host in DATABASE_URL',
  EAI_AGAIN: 'the host name could not be looked up; check the network and the host in DATABASE_URL',
  ETIMEDOUT: 'the server did not respond; check host, port and firewall',
  EHOSTUNREACH: 'the host cannot be reached; check the network',
  ENETUNREACH: 'the network cannot be reached; check the network',
  ECONNRESET: 'the server closed the connection; it may be restarting, see its log',
  EPIPE: 'the server closed the connection; it may be restarting, see its log',
  '08': 'the connection broke; the server may be restarting, see its log',
  '28P01': 'check user and password in DATABASE_URL',
  '28000': "the server does not let this user in; check user and TLS in DATABASE_URL and the server's pg_hba.conf",
  '3D000': 'create it (createdb) or correct the name in DATABASE_URL',
  '3F000': 'run market-recorder migrate if it is a schema of the recorder',
  '42P01': 'run market-recorder migrate if it is a table of the recorder',
  '42501': 'grant it, or connect as the owner of the tables',
  '25006': 'the server or the transaction is read-only; connect to the primary server',
  '53100': "the server's disk is full; free space on it or set a shorter retention",
  '53200': 'the server is out of memory; lower its work_mem or ask for less at once',
  '53300': 'the server has no connection left; raise max_connections (a recorder takes up to 22)',
  '55P03': 'another session holds a lock; see pg_stat_activity',
  '57014': 'the statement exceeded its time limit; narrow it down or raise the timeout',
  '57P01': 'the server is shutting down or restarting',
  '57P02': 'the server crashed and is recovering; see its log',
  '57P03': 'the server is starting up; try again in a moment',
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed; give its authority with sslrootcert=FILE",
  SELF_SIGNED_CERT_IN_CHAIN: "give the certificate's authority with sslrootcert=FILE in DATABASE_URL",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "give the certificate's authority with sslrootcert=FILE in DATABASE_URL",
  ERR_TLS_CERT_ALTNAME_INVALID: 'use the host name that the certificate is made out to',
}

const networkCodes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNRESET',
  'EPIPE',
])

/** Matches the driver's messages about a lost connection that have no code. */
const connectionLost =
  /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error)/

/** Returns one line that says what failed and what to do. The line never has a password. */
export function describeDatabaseError(error: unknown): string {
  const cause = rootOf(error)
  const { code, detail, hint, address, port } = cause as ErrorDetails
  const place = typeof address === 'string' ? `${address}${typeof port === 'number' ? `:${port}` : ''}` : ''
  const where = place === '' || cause.message.includes(place) ? '' : ` (${place})`
  const hinted = typeof hint === 'string' ? `; ${hint.replace(/\.$/, '')}` : ''
  const what = `${cause.message || String(code)}${where}${typeof detail === 'string' ? `: ${detail}` : ''}${hinted}`
  const advised = typeof code === 'string' ? (advice[code] ?? advice[code.slice(0, 2)]) : undefined
  const todo = advised ?? (connectionLost.test(cause.message) ? advice['08'] : undefined)
  const line = `database: ${what}${todo === undefined ? '' : `; ${todo}`}`
  return line.replaceAll(/\s*\n\s*/g, ' ').replaceAll(/(postgres(?:ql)?:\/\/[^:@/\s]*):[^@\s]*@/g, '$1:…@')
}

/** Describes any failure of a command that uses the database, in one line. */
export function describeError(error: unknown): string {
  if (isDatabaseError(error)) return describeDatabaseError(error)
  return messageOf(error)
}

/** Returns true if an error is from the database or the connection to it. */
function isDatabaseError(error: unknown): boolean {
  return error instanceof pg.DatabaseError || isPassingError(error)
}

/** Returns true if the database was away or busy, so that the same statement can succeed later. */
export function isPassingError(error: unknown): boolean {
  const code = codeOf(error)
  if (code === undefined) return connectionLost.test(rootOf(error).message)
  // 08: connection; 53: resources (connections, disk, memory); 57P0x: shutdown; 40: serialization and deadlock;
  // 25006: failover; 55P03: a lock that is not available.
  return networkCodes.has(code) || /^(08|53|57P0|40)/.test(code) || code === '25006' || code === '55P03'
}

/**
 * Returns true if the server cannot be reached and only waiting helps. Nothing listens there, the server starts or
 * stops, or the network is down. An unknown host name, a wrong password or a full disk are none of these.
 */
export function isAway(error: unknown): boolean {
  const code = codeOf(error)
  if (code === undefined) return connectionLost.test(rootOf(error).message)
  return (networkCodes.has(code) && code !== 'ENOTFOUND') || /^(08|57P0[123])/.test(code)
}

/**
 * Returns true if the same statement may succeed once the database works again. It may be away, full, read-only, busy,
 * locked, not migrated, or blocked by a trigger. Returns false only if the row or the program itself is wrong.
 */
export function mayPassLater(error: unknown): boolean {
  return !(error instanceof TypeError || error instanceof RangeError || isDataError(error))
}

/** Returns true for an error of the server, its connection or the driver. Other errors are faults of the program. */
export function isOfDatabase(error: unknown): boolean {
  if (error instanceof TypeError || error instanceof RangeError) return false
  return codeOf(error) !== undefined || isAway(error)
}

/** Returns true if a transaction was ended because of another one: a deadlock, or a serialization conflict. */
export function isConflictError(error: unknown): boolean {
  return codeOf(error)?.startsWith('40') === true
}

/** Returns true if another session held a lock that the statement needs, and the statement did not wait longer. */
export function isLockedError(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/**
 * Returns true if the database refused a row because of its values. Only a data exception (class 22) or a check of the
 * recorder's own schema proves that. Other codes may be due to the schema, the settings or the server.
 */
export function isDataError(error: unknown): boolean {
  const code = codeOf(error)
  const { constraint } = rootOf(error) as ErrorDetails
  return code?.startsWith('22') === true || (code === '23514' && rowChecks.has(String(constraint)))
}

/** Columns of each table whose values the schema checks. Of declared fields these are all but optional ones. */
const checkedColumns: Readonly<Record<string, readonly string[]>> = {
  candles: ['symbol', 'open', 'high', 'low', 'close', 'base_volume', 'quote_turnover'],
  instrument_history: ['symbol', 'kind', 'extra'],
  instruments: ['symbol', 'kind', 'extra'],
  rpi_symbols: ['symbol'],
  ...Object.fromEntries(
    fieldStreams.map((name) => {
      const fields = Object.entries<FieldType>(streamTraits[name].fields)
      const checked = fields.filter(([, type]) => ['text', 'integer', 'decimal'].includes(type))
      return [name, ['symbol', 'extra', ...checked.map(([field]) => snakeCase(field))]]
    }),
  ),
}

/** Names of the checks that a row of the market can violate. Other checks are newer, or not the recorder's own. */
export const rowChecks: ReadonlySet<string> = new Set([
  ...Object.entries(checkedColumns).flatMap(([table, columns]) => columns.map((column) => `${table}_${column}_check`)),
  // Checks of whole rows: sides of a book have equal lengths, and periods end after they begin.
  'instrument_history_check',
  'rpi_symbols_check',
  ...fieldStreams.filter(isOfVersions).map((name) => `${name}_check`),
  'order_books_check',
  'order_books_check1',
  'rpi_order_books_check',
  'rpi_order_books_check1',
])

/** Returns the error that tells the cause. If attempts on several addresses failed, the first one stands for all. */
function rootOf(error: unknown): Error {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return error.errors[0]
  return error instanceof Error ? error : new Error(String(error))
}

/** Returns the code of the server (SQLSTATE) or of the operating system; undefined if the error has none. */
export function codeOf(error: unknown): string | undefined {
  const { code } = rootOf(error) as ErrorDetails
  return typeof code === 'string' ? code : undefined
}

/** Returns true if a statement was cancelled, by a timeout or by request. */
export function isCancelled(error: unknown): boolean {
  return codeOf(error) === '57014'
}
