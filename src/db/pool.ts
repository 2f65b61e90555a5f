import type { EventEmitter } from 'node:events'
import { statSync } from 'node:fs'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import pg from 'pg'

/** Open connections. Close them once; every query after that fails. */
export interface DatabasePool {
  readonly pool: pg.Pool
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** `postgresql://user:password@host:port/database`. Any `sslmode` from prefer up verifies the certificate. */
  readonly url: string
  /** The largest number of connections at once. Default 5, minimum 1. */
  readonly poolSize?: number
  /** Shown in pg_stat_activity. Default `market-recorder`. */
  readonly applicationName?: string
  /** The server cancels statements that take longer. Default: the server's own setting. */
  readonly statementTimeoutMs?: number
  /** A connection without any traffic for this long is closed. Default: never. */
  readonly silenceTimeoutMs?: number
  /** True when the server refuses every change on these connections. Default false. */
  readonly isReadOnly?: boolean
  /** Checks each new connection before it is used. A rejection closes it, and fails what it was opened for. */
  readonly check?: (client: pg.ClientBase) => Promise<void>
}

export const connectTimeoutMs = 10_000

/** Opens a pool. Connects at the first query, so an unreachable server shows there. Throws on a malformed URL. */
export function openPool(options: DatabaseOptions): pg.Pool {
  const poolSize = options.poolSize ?? 5
  if (!Number.isInteger(poolSize) || poolSize < 1) {
    throw new RangeError(`poolSize must be a whole number of at least 1, got ${poolSize}`)
  }
  // The pool waits for the promise, which its types do not say.
  const checked: object = options.check === undefined ? {} : { onConnect: options.check }
  const pool = new pg.Pool({
    Client: DatabaseClient,
    // Read-only connections turn off jit. The planner overrates many small look-ups, and compiling would take longer.
    connectionString: connectionString(options.url, options.isReadOnly === true ? readOnlySettings : []),
    max: poolSize,
    application_name: options.applicationName ?? 'market-recorder',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    types: { getTypeParser },
    ...checked,
    ...(options.statementTimeoutMs === undefined ? {} : { statement_timeout: options.statementTimeoutMs }),
  })
  // Without these handlers, a broken connection ends the process. The pool emits 'error' for idle clients. A client in
  // use emits its own, and its query rejects with the same error.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => {
    client.on('error', () => undefined)
    if (options.silenceTimeoutMs !== undefined) giveUpSilent(client, options.silenceTimeoutMs)
  })
  return pool
}

/**
 * Settings of every session, whatever the server, database, login or environment (PGOPTIONS, PGDATESTYLE, PGTZ) set.
 * Times are parsed and shown by them, and floats with all of their digits.
 */
const sessionSettings = ['datestyle=ISO,MDY', 'intervalstyle=postgres', 'timezone=UTC', 'extra_float_digits=1']
const readOnlySettings = ['default_transaction_read_only=on', 'jit=off']

const urlForm = 'write postgresql://user:password@host:port/database'

/** Closes a silent connection. Otherwise a query to a vanished server waits until TCP stops retransmitting. */
function giveUpSilent(client: pg.PoolClient, timeoutMs: number): void {
  const socket = socketOf(client)
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`Connection terminated: silent for ${timeoutMs} ms`)))
}

const clearText =
  'the server asks for the password in clear text, without TLS, so that it may be anybody who listens at this port; ' +
  'set scram-sha-256 in its pg_hba.conf, or sslmode=require in the URL'

/** A client that gives its password to nobody in clear text. Its server may have died, and another program may listen. */
export class DatabaseClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    connectionOf(this).once('authenticationCleartextPassword', () => {
      const socket = socketOf(this)
      // A socket in the file system has no address.
      if (!(socket instanceof TLSSocket) && socket.remoteAddress !== undefined) socket.destroy(new Error(clearText))
    })
  }
}

/** Returns the socket of a client. */
export function socketOf(client: pg.ClientBase): Socket {
  return connectionOf(client).stream
}

/** Returns the connection of a client. The driver's types do not name it. */
function connectionOf(client: pg.ClientBase): EventEmitter & { readonly stream: Socket } {
  return (client as unknown as { readonly connection: EventEmitter & { readonly stream: Socket } }).connection
}

/**
 * Returns the URL for the driver, with the settings of every session. Throws an error of one line if the URL is
 * malformed. The error does not quote the URL.
 */
export function connectionString(url: string, settings: readonly string[] = []): string {
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    // The cause is left out, because it quotes the URL with its password.
    throw new Error(`the database URL is malformed; ${urlForm}, with special characters percent-encoded`)
  }
  if (parsed.protocol !== 'postgresql:' && parsed.protocol !== 'postgres:') {
    throw new Error(`the database URL begins with ${parsed.protocol}; ${urlForm}`)
  }
  for (const file of ['sslrootcert', 'sslcert', 'sslkey'].map((name) => parsed.searchParams.get(name) ?? '')) {
    // The driver would wait for a pipe's writer.
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) throw new Error(`${file} is no regular file`)
  }
  // The driver verifies certificates in these modes anyway. This change avoids its warning.
  const mode = parsed.searchParams.get('sslmode')
  if (mode === 'prefer' || mode === 'require' || mode === 'verify-ca') parsed.searchParams.set('sslmode', 'verify-full')
  // These settings come last, because the last value of a repeated setting counts. Other options of the URL are kept.
  const options = [...sessionSettings, ...settings].map((setting) => `-c ${setting}`)
  const given = parsed.searchParams.get('options')
  parsed.searchParams.set('options', [...(given === null ? [] : [given]), ...options].join(' '))
  return parsed.href
}

const { getTypeParser: driverParser, builtins } = pg.types
const numericArrayOid = 1231
const textArrayOid: number = 1009
const parseDate = driverParser(builtins.TIMESTAMPTZ) as (text: string) => Date | number

/** Parses a timestamp as milliseconds since the epoch. Infinite timestamps become ±Infinity. */
function parseTime(text: string): number {
  const value = parseDate(text)
  return typeof value === 'number' ? value : value.getTime()
}

type Parse = (text: string) => unknown

// The driver keeps numeric as text, but would parse numeric[] as floats.
const parsers = new Map<number, Parse>([
  [builtins.INT8, Number],
  [builtins.TIMESTAMPTZ, parseTime],
  [numericArrayOid, driverParser(textArrayOid) as Parse],
])

const getTypeParser: typeof pg.types.getTypeParser = (oid, format): Parse =>
  (format === 'binary' ? undefined : parsers.get(oid)) ?? (driverParser(oid, format) as Parse)
