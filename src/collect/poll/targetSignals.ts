import { onAbort } from '../../runtime/abort.js'

/**
 * For each target that is being asked for a signal that ends its requests that still wait: when it is no longer this recorder's, or
 * with everything. Signals are used again, by other targets: what listens to one costs more than a request, and thousands that lie
 * idle are a tenth of all that is in memory.
 */
export class TargetSignals {
  readonly #inUse = new Map<string, AbortController>()
  readonly #free: AbortController[] = []
  readonly #forget: () => void
  #isEnded = false

  /** @param parent ends all of them */
  constructor(parent: AbortSignal) {
    this.#forget = onAbort(parent, () => this.end())
    if (parent.aborted) this.#isEnded = true
  }

  /** @param work of this target, one at a time */
  async during<Result>(key: string, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const controller = this.#free.pop() ?? new AbortController()
    if (this.#isEnded) controller.abort()
    this.#inUse.set(key, controller)
    try {
      return await work(controller.signal)
    } finally {
      if (this.#inUse.get(key) === controller) this.#inUse.delete(key)
      if (!controller.signal.aborted) this.#free.push(controller)
    }
  }

  /** Ends those of all other targets. */
  keepOnly(wanted: { has(key: string): boolean }): void {
    for (const [key, controller] of this.#inUse) {
      if (wanted.has(key)) continue
      this.#inUse.delete(key)
      controller.abort()
    }
  }

  end(): void {
    this.#isEnded = true
    this.#forget()
    for (const controller of this.#inUse.values()) controller.abort()
  }
}
