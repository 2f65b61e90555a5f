import { performance } from 'node:perf_hooks'

/** A time in which a process looked at nothing, because it or the machine was busy: milliseconds of the wall clock. */
export interface Stall {
  readonly fromMs: number
  readonly toMs: number
}

const lookEveryMs = 10
/** Minimum length of a stall, milliseconds. Shorter delays are ordinary inaccuracy of timers. */
const shortestMs = 40

/**
 * Records when the event loop stood still. Requests that arrived during a stall are counted at its end, as one burst.
 * Requests due during a stall are sent late. A judgment of the pace of requests must allow for both.
 */
export class StallWatch {
  readonly #stalls: Stall[] = []
  readonly #timer: NodeJS.Timeout

  constructor() {
    let lookedAtMs = performance.now()
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      const lateMs = nowMs - lookedAtMs - lookEveryMs
      if (lateMs >= shortestMs) {
        const toMs = performance.timeOrigin + nowMs
        this.#stalls.push({ fromMs: toMs - lateMs, toMs })
      }
      lookedAtMs = nowMs
    }, lookEveryMs)
    this.#timer.unref()
  }

  /** All so far, oldest first. */
  list(): readonly Stall[] {
    return this.#stalls
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
