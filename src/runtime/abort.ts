/** What is to be called when a signal is aborted. One listener for all: adding and removing one costs more than a request's timer. */
const actionsOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `action` when the signal is aborted; the result takes that back. One signal may end any number of requests. */
export function onAbort(signal: AbortSignal | undefined, action: () => void): () => void {
  if (signal === undefined) return () => undefined
  const actions = actionsOf.get(signal) ?? actionsBy(signal)
  const own = () => action()
  actions.add(own)
  return () => actions.delete(own)
}

function actionsBy(signal: AbortSignal): Set<() => void> {
  const actions = new Set<() => void>()
  actionsOf.set(signal, actions)
  signal.addEventListener(
    'abort',
    () => {
      for (const action of actions) action()
      actions.clear()
    },
    { once: true },
  )
  return actions
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
