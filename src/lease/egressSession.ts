import type { Socket } from 'node:net'
import pg from 'pg'
import { type Clock, within } from '../runtime/clock.js'
import { connectionString } from '../db/pool.js'
import { lockSessionName } from '../db/locks/sessionLock.js'

const responseWithinMs = 1_500

/** A connection for the lock of an egress, not yet open. A pooler that hands sessions on must not be in its way. */
export function lockClient(url: string): pg.Client {
  const client = new pg.Client({
    connectionString: connectionString(url),
    application_name: lockSessionName('egress lock'),
    connectionTimeoutMillis: responseWithinMs,
    query_timeout: responseWithinMs,
    keepAlive: true,
  })
  client.on('error', () => undefined)
  return client
}

/** Opens it so that the server notices within seconds when this process cannot be reached any more, and gives the lock away. */
export async function startLockSession(client: pg.Client): Promise<void> {
  await client.connect()
  await client.query(`set tcp_keepalives_idle = 1; set tcp_keepalives_interval = 1; set tcp_keepalives_count = 3;
    set tcp_user_timeout = 4000; set idle_session_timeout = 0; set statement_timeout = 0`)
}

/** Ends it. A server that does not respond does not say good-bye either. */
export async function endLockSession(client: pg.Client, clock: Clock): Promise<void> {
  const ended = client.end().catch(() => undefined)
  await within(clock, responseWithinMs, ended, undefined)
  const { connection } = client as unknown as { readonly connection?: { readonly stream?: Pick<Socket, 'destroy'> } }
  connection?.stream?.destroy()
}
