import type pg from 'pg'
import { onAbort } from '../runtime/abort.js'
import type { DatabasePool } from './pool.js'

/** Has the server end what it is asked over this pool when the signal aborts. To be called before the first query. */
export function cancelOnAbort({ pool }: DatabasePool, signal: AbortSignal): void {
  const ids = new Set<number | null>()
  const idOf = (client: pg.PoolClient) => (client as unknown as { readonly processID: number | null }).processID
  pool.on('connect', (client) => ids.add(idOf(client)))
  pool.on('remove', (client) => ids.delete(idOf(client)))
  // Over an idle connection, which is one of them, or one more.
  const cancel = 'select pg_cancel_backend(id) from unnest($1::int[]) as id where id <> pg_backend_pid()'
  onAbort(signal, () => void pool.query(cancel, [[...ids]]).catch(() => undefined))
}
