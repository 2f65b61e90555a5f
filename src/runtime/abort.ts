/**
 * Signal that ends waiting. Thousands of requests wait at once, each with an end of its own beside that of the client.
 * On Node.js 20, two signals joined by AbortSignal.any take 2.8 KB and 30 µs of a processor for each request. A
 * `LightEnding` joined by `endedByEither` takes 1 KB and 0.3 µs.
 */
export type Ending = AbortSignal | OwnEnding

interface OwnEnding {
  readonly aborted: boolean
  readonly reason: unknown
  /** Calls `action` once on abort; `action` must not throw. The returned function cancels the call. */
  onAbort(action: () => void): () => void
}

/**
 * Actions to call when a signal aborts. One listener per signal calls them all.
 * Adding and removing a listener costs more than the timer of a request.
 */
const actionsOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `action` when the signal aborts. The returned function cancels the call. One signal may end many requests. */
export function onAbort(signal: Ending | undefined, action: () => void): () => void {
  if (signal === undefined) return () => undefined
  if (!(signal instanceof AbortSignal)) return signal.onAbort(action)
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

/** One reason for all: with a stack of its own for each, the end of thousands of requests at once takes twice as long. */
const wasAborted = new DOMException('This operation was aborted', 'AbortError')

/** An ending that takes less memory than an AbortController with its signal. */
export class LightEnding implements OwnEnding {
  #isAborted = false
  #reason: unknown
  readonly #actions: (() => void)[] = []

  get aborted(): boolean {
    return this.#isAborted
  }

  get reason(): unknown {
    return this.#reason
  }

  abort(): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.#reason = wasAborted
    // Actions run one at a time, because an action may cancel another.
    for (let action = this.#actions.shift(); action !== undefined; action = this.#actions.shift()) action()
  }

  onAbort(action: () => void): () => void {
    const own = () => action()
    this.#actions.push(own)
    return () => {
      const place = this.#actions.indexOf(own)
      if (place !== -1) this.#actions.splice(place, 1)
    }
  }
}

/** An ending that aborts with the first of two endings. If both are aborted, it has the reason of `first`. */
class EitherEnding implements OwnEnding {
  readonly #first: Ending
  readonly #second: Ending

  constructor(first: Ending, second: Ending) {
    this.#first = first
    this.#second = second
  }

  get aborted(): boolean {
    return this.#first.aborted || this.#second.aborted
  }

  get reason(): unknown {
    return (this.#first.aborted ? this.#first : this.#second).reason as unknown
  }

  onAbort(action: () => void): () => void {
    const stopListening = () => {
      stopFirst()
      stopSecond()
    }
    const once = () => {
      stopListening()
      action()
    }
    const stopFirst = onAbort(this.#first, once)
    const stopSecond = onAbort(this.#second, once)
    return stopListening
  }
}

/** Returns an ending that aborts when `first` aborts or, if `second` is given, when `second` aborts. */
export function endedByEither(first: Ending, second: Ending | undefined): Ending {
  return second === undefined ? first : new EitherEnding(first, second)
}

/**
 * Resolves as soon as `work` resolves or the signal aborts; rejects if `work` rejects before. Nothing stays at the
 * signal. A race with a promise of the abort would leave something there each time, until the abort.
 */
export function unlessAborted(signal: Ending, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      resolve()
      return
    }
    const stopListening = onAbort(signal, resolve)
    work.finally(stopListening).then(() => resolve(), reject)
  })
}
