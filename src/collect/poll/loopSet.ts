/** One endless loop for each target. Targets come and go; a loop never runs twice at the same time. */
export class LoopSet<Target> {
  readonly #loops = new Map<string, { readonly controller: AbortController; readonly done: Promise<void> }>()
  /** Loops that are no longer wanted and finish what they were doing. */
  readonly #ending = new Set<Promise<void>>()
  readonly #keyOf: (target: Target) => string
  readonly #run: (target: Target, signal: AbortSignal) => Promise<void>

  /** `run` goes on until its signal aborts and must not reject. */
  constructor(keyOf: (target: Target) => string, run: (target: Target, signal: AbortSignal) => Promise<void>) {
    this.#keyOf = keyOf
    this.#run = run
  }

  get size(): number {
    return this.#loops.size
  }

  /** Starts loops for new targets and ends those of targets that are gone; the others go on undisturbed. */
  update(targets: readonly Target[]): void {
    const wanted = new Map(targets.map((target) => [this.#keyOf(target), target]))
    for (const [key, loop] of this.#loops) {
      if (wanted.has(key)) continue
      loop.controller.abort()
      this.#loops.delete(key)
      this.#ending.add(loop.done)
      void loop.done.then(() => this.#ending.delete(loop.done))
    }
    for (const [key, target] of wanted) {
      if (this.#loops.has(key)) continue
      const controller = new AbortController()
      this.#loops.set(key, { controller, done: this.#run(target, controller.signal) })
    }
  }

  /** Ends all loops and waits until each has finished what it was doing. */
  async stop(): Promise<void> {
    const loops = [...this.#loops.values()]
    this.#loops.clear()
    for (const loop of loops) loop.controller.abort()
    await Promise.all([...this.#ending, ...loops.map((loop) => loop.done)])
  }
}
