import type pg from 'pg'
import { connectionString, DatabaseClient, socketOf } from '../db/pool.js'
import { type Clock, within } from '../runtime/clock.js'

/** Longest wait for a response of the database. */
export const responseWithinMs = 1_000
/**
 * Longest wait for a lock. It is shorter than the wait for a response, so that a lock and a silent server give
 * different errors.
 */
const lockTimeoutMs = 700
const endWithinMs = 100

/** Makes the connection of a lease. The caller opens it. */
export function createConnection(url: string, connectWithinMs: number): pg.Client {
  const client = new DatabaseClient({
    connectionString: connectionString(url),
    application_name: 'market-recorder lease',
    connectionTimeoutMillis: connectWithinMs,
    query_timeout: responseWithinMs,
    lock_timeout: lockTimeoutMs,
    keepAlive: true,
  })
  client.on('error', () => undefined)
  return client
}

/** Ends a connection. A server that does not respond never confirms the end, so the wait is short. */
export async function endConnection(client: pg.Client, clock: Clock): Promise<void> {
  const ended = client.end().catch(() => undefined)
  await within(clock, endWithinMs, ended, undefined)
  socketOf(client).destroy()
}
