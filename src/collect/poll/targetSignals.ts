import { onAbort } from '../../runtime/abort.js'

/**
 * For each target a signal that ends its requests that still wait: when it is no longer this recorder's, or with everything.
 * One lasts as long as its target, as what listens to a signal costs more than a request.
 */
export class TargetSignals {
  readonly #controllers = new Map<string, AbortController>()
  readonly #forget: () => void
  #isEnded = false

  /** @param parent ends all of them */
  constructor(parent: AbortSignal) {
    this.#forget = onAbort(parent, () => this.end())
    if (parent.aborted) this.#isEnded = true
  }

  signalFor(key: string): AbortSignal {
    let controller = this.#controllers.get(key)
    if (controller === undefined) {
      controller = new AbortController()
      if (this.#isEnded) controller.abort()
      this.#controllers.set(key, controller)
    }
    return controller.signal
  }

  /** Ends those of all other targets. */
  keepOnly(wanted: { has(key: string): boolean }): void {
    for (const [key, controller] of this.#controllers) {
      if (wanted.has(key)) continue
      this.#controllers.delete(key)
      controller.abort()
    }
  }

  end(): void {
    this.#isEnded = true
    this.#forget()
    for (const controller of this.#controllers.values()) controller.abort()
  }
}
