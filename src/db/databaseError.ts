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
  /** The functions in which it happened, the innermost first. */
  readonly where?: unknown
}

/** Consequences of an error of the server, of its connection or of the operating system. */
interface ErrorTraits {
  /** Advice for the user, as the end of the line. */
  readonly advice: string | null
  /** The database was away or busy, so the same statement can succeed later. */
  readonly isPassing: boolean
  /** The server cannot be reached and only waiting helps. A wrong host name, password or full disk is another matter. */
  readonly isAway: boolean
  /**
   * True if the error shows that no recorder can take the lease now. The lease may then be extended. A read-only server
   * does not show it: another may have taken its place. Nor does a lock: its holder may be taking the lease.
   */
  readonly preventsTakeover: boolean
  /** The transaction was ended because of another one: a deadlock, or a serialization conflict. */
  readonly isConflict: boolean
  /** Another session held a lock that the statement needs, and the statement did not wait longer. */
  readonly isLocked: boolean
  /** The statement was cancelled, by a timeout or by request. */
  readonly isCancelled: boolean
  /** The database refused a row because of its values. */
  readonly isOfRow: boolean
  /** The row, table or schema that the statement was to make exists already. */
  readonly isDuplicate: boolean
}

const noTraits: ErrorTraits = {
  advice: null,
  isPassing: false,
  isAway: false,
  preventsTakeover: false,
  isConflict: false,
  isLocked: false,
  isCancelled: false,
  isOfRow: false,
  isDuplicate: false,
}

const connection = { isPassing: true, isAway: true } as const
const closed = { ...connection, advice: 'the server closed the connection; it may be restarting, see its log' } as const
const broken = { ...connection, advice: 'the connection broke; the server may be restarting, see its log' } as const
const authority = { advice: "give the certificate's authority with sslrootcert=FILE in DATABASE_URL" } as const

/** Traits of errors, by their code or by its first two characters. Those of the code go before those of its class. */
const traitsOfCodes: Readonly<Record<string, Partial<ErrorTraits>>> = {
  ECONNREFUSED: {
    ...connection,
    preventsTakeover: true,
    advice: 'nothing listens there; start the server, or correct host and port',
  },
  ENOTFOUND: { isPassing: true, advice: 'that host name does not exist; check the host in DATABASE_URL' },
  EAI_AGAIN: {
    ...connection,
    advice: 'the host name could not be looked up; check the network and the host in DATABASE_URL',
  },
  ETIMEDOUT: { ...connection, advice: 'the server did not respond; check host, port and firewall' },
  EHOSTUNREACH: { ...connection, advice: 'the host cannot be reached; check the network' },
  ENETUNREACH: { ...connection, advice: 'the network cannot be reached; check the network' },
  ECONNRESET: closed,
  EPIPE: closed,
  DEPTH_ZERO_SELF_SIGNED_CERT: {
    advice: "the server's certificate is self-signed; give its authority with sslrootcert=FILE",
  },
  SELF_SIGNED_CERT_IN_CHAIN: authority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: authority,
  ERR_TLS_CERT_ALTNAME_INVALID: { advice: 'use the host name that the certificate is made out to' },
  '08': broken,
  '23505': { isDuplicate: true },
  '25006': {
    isPassing: true,
    advice: 'the server or the transaction is read-only; connect to the primary server',
  },
  '28000': {
    advice: "the server does not let this user in; check user and TLS in DATABASE_URL and the server's pg_hba.conf",
  },
  '28P01': { advice: 'check user and password in DATABASE_URL, or in DATABASE_READ_URL where that is set' },
  '3D000': { advice: 'create it (createdb) or correct the name in DATABASE_URL' },
  '3F000': { preventsTakeover: true, advice: 'run npx market-recorder migrate if it is a schema of the recorder' },
  '40': { isPassing: true, isConflict: true },
  '42501': { advice: 'grant it, or connect as the owner of the tables' },
  '42710': { isDuplicate: true },
  '42P06': { isDuplicate: true },
  '42P07': { isDuplicate: true },
  '42P01': { preventsTakeover: true, advice: 'run npx market-recorder migrate if it is a table of the recorder' },
  /** Resources: connections, disk, memory. */
  '53': { isPassing: true },
  '53100': { preventsTakeover: true, advice: "the server's disk is full; free space on it or set a shorter retention" },
  '53200': { advice: 'the server is out of memory; lower its work_mem or ask for less at once' },
  '53300': { advice: 'the server has no connection left; raise max_connections: docs/scale.md has the number' },
  '55P03': {
    isPassing: true,
    isLocked: true,
    advice: 'another session holds a lock; see pg_stat_activity',
  },
  '57014': {
    isCancelled: true,
    advice: 'the statement exceeded its time limit; narrow it down or raise the timeout',
  },
  '57P01': { ...connection, advice: 'the server is shutting down or restarting' },
  '57P02': { ...connection, preventsTakeover: true, advice: 'the server crashed and is recovering; see its log' },
  '57P03': { ...connection, preventsTakeover: true, advice: 'try again in a moment' },
  /** The database was dropped, or the session was idle for too long. */
  '57P04': { isPassing: true },
  '57P05': { isPassing: true },
}

/** Matches the driver's messages about a lost connection that have no code. */
const connectionLost =
  /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error)/

/** Returns the traits of an error. One that the table does not list has none. */
export function traitsOf(error: unknown): ErrorTraits {
  const code = codeOf(error)
  if (code === undefined) return { ...noTraits, ...(connectionLost.test(rootOf(error).message) && broken) }
  const isOfRow = (code === checkViolation && isRowCheck(error)) || code.startsWith(dataException)
  const foreign = isOfRow &&
    isOfOthers(error) && { isOfRow: false, advice: 'mend or drop that function or its trigger' }
  const advice = isLockTableFull(error) && { advice: 'sessions hold too many locks; see pg_locks' }
  return { ...noTraits, isOfRow, ...traitsOfCodes[code.slice(0, 2)], ...traitsOfCodes[code], ...advice, ...foreign }
}

/** Returns true if the server has no room for a further lock. Only the hint, which names a setting, tells it. */
export function isLockTableFull(error: unknown): boolean {
  const { hint } = rootOf(error) as ErrorDetails
  return codeOf(error) === '53200' && String(hint).includes('max_locks_per_transaction')
}

/** Returns one line that says what failed and what to do. The line never has a password. */
export function describeDatabaseError(error: unknown): string {
  const cause = rootOf(error)
  const { code, detail, hint, address, port } = cause as ErrorDetails
  const place = typeof address === 'string' ? `${address}${typeof port === 'number' ? `:${port}` : ''}` : ''
  const where = place === '' || cause.message.includes(place) ? '' : ` (${place})`
  const hinted = typeof hint === 'string' ? `; ${hint.replace(/\.$/, '')}` : ''
  const said = `${cause.message || String(code)}${where}${typeof detail === 'string' ? `: ${detail}` : ''}`
  const { advice } = traitsOf(error)
  const more = `${hinted}${advice === null ? '' : `; ${advice}`}`
  const line = `database: ${more === '' ? said : said.replace(/\.$/, '')}${more}`
  return line.replaceAll(/\s*\n\s*/g, ' ').replaceAll(/(postgres(?:ql)?:\/\/[^:@/\s]*):[^@\s]*@/g, '$1:…@')
}

/** Describes any failure of a command that uses the database, in one line. */
export function describeError(error: unknown): string {
  const isOfServer = error instanceof pg.DatabaseError || traitsOf(error).isPassing
  return isOfServer ? describeDatabaseError(error) : messageOf(error)
}

/**
 * Returns true if the same statement may succeed once the database works again. It may be away, full, read-only, busy,
 * locked, not migrated, or blocked by a trigger. Returns false only if the row or the program itself is wrong.
 */
export function mayPassLater(error: unknown): boolean {
  return !(isOfProgram(error) || traitsOf(error).isOfRow)
}

/** Returns true for an error of the server, its connection or the driver. Other errors are faults of the program. */
export function isOfDatabase(error: unknown): boolean {
  return !isOfProgram(error) && (codeOf(error) !== undefined || traitsOf(error).isAway)
}

function isOfProgram(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError
}

const checkViolation = '23514'
const dataException = '22'

/**
 * Returns true for an error in a function that is not the recorder's, such as that of somebody's trigger. The server
 * names functions with their schema, in words of its own language.
 */
function isOfOthers(error: unknown): boolean {
  const { where } = rootOf(error) as ErrorDetails
  const inFunctions = (typeof where === 'string' ? where : '').split('\n').filter((line) => line.startsWith('PL/'))
  return inFunctions.some((line) => !/^\S+( \S+)? (recorder|market)\./.test(line))
}

/** Only checks of the recorder's own schema prove that a row is wrong. A user may have added others. */
function isRowCheck(error: unknown): boolean {
  const { constraint } = rootOf(error) as ErrorDetails
  return rowChecks.has(String(constraint))
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
      const checked = fields.filter(([, type]) => ['text', 'integer', 'decimal', 'amount'].includes(type))
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
function codeOf(error: unknown): string | undefined {
  const { code } = rootOf(error) as ErrorDetails
  return typeof code === 'string' ? code : undefined
}
