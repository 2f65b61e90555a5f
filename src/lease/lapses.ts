import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'

/** Length at which a lapse is a warning. Requests that wait for less are only a little late. */
const longMs = 5_000
/** Pause of this process that explains a late renewal. */
const pauseMs = 1_000
/** Time for which further short lapses are only counted. */
const quietMs = 600_000

/**
 * Tells of lapses: times in which a recorder owns its row and does not send, because it could not renew the row in time.
 * The usual cause is a busy machine. A short lapse costs nothing but a wait, so it is no warning.
 */
export class Lapses {
  readonly #egress: string
  readonly #logger: Logger
  readonly #clock: Clock
  #lookedMs: number
  /** Longest pause of this process since the last renewal that came in time. */
  #longestPauseMs = 0
  #beganMs: number | null = null
  #isWarned = false
  #toldMs = -Infinity
  #count = 0

  constructor(egress: string, logger: Logger, clock: Clock) {
    this.#egress = egress
    this.#logger = logger
    this.#clock = clock
    this.#lookedMs = clock.monotonicMs()
  }

  /** Looks at the time. It must be called several times a second, since a late call is how a pause is noticed. */
  look(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#longestPauseMs = Math.max(this.#longestPauseMs, nowMs - this.#lookedMs)
    this.#lookedMs = nowMs
    if (this.#beganMs === null || this.#isWarned || nowMs - this.#beganMs < longMs) return
    this.#isWarned = true
    this.#logger.warn(`nothing is sent from ${this.#egress} until its row is renewed: ${this.#cause()}`)
  }

  begin(): void {
    this.#beganMs = this.#clock.monotonicMs()
  }

  /** Records a renewal that came in time. */
  renewed(): void {
    if (this.#beganMs === null) this.#longestPauseMs = 0
  }

  /** Tells how long a lapse was. Returns false if there was none. */
  end(): boolean {
    if (this.#beganMs === null) return false
    const nowMs = this.#clock.monotonicMs()
    const waited = `requests from ${this.#egress} waited ${seconds(nowMs - this.#beganMs)} for a late renewal`
    const cause = this.#cause()
    const isDue = this.#isWarned || nowMs - this.#toldMs >= quietMs
    this.drop()
    this.#count++
    if (!isDue) return true
    const times = this.#count === 1 ? '' : `, the last of ${this.#count}`
    this.#logger.info(`${waited}${times}: ${cause}; no other recorder had the right to send`)
    this.#toldMs = nowMs
    this.#count = 0
    return true
  }

  /** Forgets a lapse, since something else than a late renewal ends or explains it. */
  drop(): void {
    this.#beganMs = null
    this.#isWarned = false
    this.#longestPauseMs = 0
  }

  #cause(): string {
    return this.#longestPauseMs >= pauseMs
      ? `this machine was too busy, and this process stood still for ${seconds(this.#longestPauseMs)}`
      : 'the database was slow to respond'
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
