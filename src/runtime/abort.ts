import { setMaxListeners } from 'node:events'

/** Signals that were told so: telling them costs more than the listener. */
const unbounded = new WeakSet<AbortSignal>()

/** Calls `action` when the signal is aborted; the result takes that back. One signal may end any number of requests. */
export function onAbort(signal: AbortSignal | undefined, action: () => void): () => void {
  if (signal === undefined) return () => undefined
  // Node warns of a leak beyond ten listeners, and thousands of requests may wait under one signal.
  if (!unbounded.has(signal)) {
    unbounded.add(signal)
    setMaxListeners(0, signal)
  }
  signal.addEventListener('abort', action, { once: true })
  return () => signal.removeEventListener('abort', action)
}

/**
 * The signal that is aborted by `first` or by the caller's own, made once for each of the callers' signals: they last, and
 * thousands of requests wait under one.
 */
export function endedByEither(first: AbortSignal): (second: AbortSignal | undefined) => AbortSignal {
  const known = new WeakMap<AbortSignal, AbortSignal>()
  return (second) => {
    if (second === undefined) return first
    let either = known.get(second)
    if (either === undefined) {
      either = AbortSignal.any([first, second])
      known.set(second, either)
    }
    return either
  }
}
