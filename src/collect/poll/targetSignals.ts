import { type Ending, LightEnding, onAbort } from '../../runtime/abort.js'

/** Ends waiting requests of targets that this recorder no longer covers, or of all targets. */
export class TargetSignals {
  readonly #inUse = new Map<string, LightEnding>()
  readonly #forget: () => void
  #isEnded = false

  /** @param parent ends all of them */
  constructor(parent: AbortSignal) {
    this.#forget = onAbort(parent, () => this.end())
    if (parent.aborted) this.#isEnded = true
  }

  /** @param work of this target, one at a time */
  async during<Result>(key: string, work: (signal: Ending) => Promise<Result>): Promise<Result> {
    const ending = new LightEnding()
    if (this.#isEnded) ending.abort()
    this.#inUse.set(key, ending)
    try {
      return await work(ending)
    } finally {
      if (this.#inUse.get(key) === ending) this.#inUse.delete(key)
    }
  }

  /** Ends those of all other targets. */
  keepOnly(wanted: { has(key: string): boolean }): void {
    for (const [key, ending] of this.#inUse) {
      if (wanted.has(key)) continue
      this.#inUse.delete(key)
      ending.abort()
    }
  }

  end(): void {
    this.#isEnded = true
    this.#forget()
    for (const ending of this.#inUse.values()) ending.abort()
  }
}
