import type { Clock } from './clock.js'

/**
 * A sleep of one sleeper that others may end, over and over: a signal for each, aborted several times a second, takes ten times as
 * long as its timer.
 */
export class InterruptibleSleep {
  readonly #clock: Clock
  #end: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves after `ms`, or when somebody wakes. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        stopTimer()
        this.#end = undefined
        resolve()
      }
      const stopTimer = this.#clock.after(Math.max(0, ms), end)
      this.#end = end
    })
  }

  /** Ends the sleep; without one it does nothing. */
  wake(): void {
    this.#end?.()
  }
}
