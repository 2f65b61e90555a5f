import type pg from 'pg'
import { onAbort } from '../runtime/abort.js'
import type { DatabasePool } from './pool.js'

/** Cancels the running statements of this pool on the server when the signal aborts. Call it before the first query. */
export function cancelOnAbort({ pool }: DatabasePool, signal: AbortSignal): void {
  const ids = new Set<number | null>()
  const idOf = (client: pg.PoolClient) => (client as unknown as { readonly processID: number | null }).processID
  pool.on('connect', (client) => ids.add(idOf(client)))
  pool.on('remove', (client) => ids.delete(idOf(client)))
  // The request to cancel takes an idle connection of the pool, or a new one.
  const cancel = 'select pg_cancel_backend(id) from unnest($1::int[]) as id where id <> pg_backend_pid()'
  onAbort(signal, () => void pool.query(cancel, [[...ids]]).catch(() => undefined))
}
