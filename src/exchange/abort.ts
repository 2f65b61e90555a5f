import { setMaxListeners } from 'node:events'

/** Calls `action` when the signal is aborted; the result takes that back. One signal may end any number of requests. */
export function onAbort(signal: AbortSignal | undefined, action: () => void): () => void {
  if (signal === undefined) return () => undefined
  // Node warns of a leak beyond ten listeners, and thousands of requests may wait under one signal.
  setMaxListeners(0, signal)
  signal.addEventListener('abort', action, { once: true })
  return () => signal.removeEventListener('abort', action)
}
