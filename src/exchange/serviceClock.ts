import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'

/** The times of a response, by both clocks. */
interface ResponseTimes {
  /** The service's clock when it made the response. */
  readonly requestTime: TimeMs
  /** Our clock when the response was there. */
  readonly receivedAt: TimeMs
}

/** Largest difference of a believed response from our clock, or from the service's clock as known before. */
const toleranceMs = 5 * 60_000
/** Our clock counts as wrong when this many responses in a row contradict it in the same way, for this long. */
const responsesToConfirm = 10
const confirmAfterMs = 30_000
const agreementMs = 30_000
/** Our clock never counts as wrong by more than this. A clock that is off by more must be set. */
const maxSkewMs = 24 * 3_600_000
/** Largest correction of the reference, as a share of the time that passes. Clocks do not drift faster than this. */
const slew = 0.01

/**
 * Tells whether the time in a response can be the service's. One response with a wrong clock would do lasting harm:
 * rows from the future would stay the newest ones of their instrument.
 *
 * A response is believed if its time agrees with our clock, or with the service's clock as earlier responses showed it.
 * If this machine's clock is wrong, all responses disagree with it in the same way. After a while they are believed.
 */
export class ServiceClock {
  readonly #clock: Clock
  /** The service's time minus the monotonic clock, and when this offset was found. */
  #reference: { readonly offsetMs: number; readonly atMs: number } | undefined
  /** Responses in a row that disagree with our clock and agree with each other. */
  #candidate: { readonly offsetMs: number; readonly sinceMs: number; responses: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Judges a response. `aheadMs` tells how far one that is not believed is ahead of our clock; negative if behind. */
  judge({
    requestTime,
    receivedAt,
  }: ResponseTimes): { readonly isBelieved: true } | { readonly isBelieved: false; readonly aheadMs: number } {
    const nowMs = this.#clock.monotonicMs()
    const offsetMs = requestTime - nowMs
    const aheadMs = requestTime - receivedAt
    const aheadOfReferenceMs = this.#reference === undefined ? Infinity : offsetMs - this.#reference.offsetMs
    if (Math.abs(aheadMs) <= toleranceMs) this.#believe(offsetMs, nowMs)
    else if (Math.abs(aheadOfReferenceMs) <= toleranceMs) this.#follow(offsetMs, nowMs)
    else if (this.#isConfirmed(offsetMs, aheadMs, nowMs)) this.#believe(offsetMs, nowMs)
    else return { isBelieved: false, aheadMs }
    this.#candidate = undefined
    return { isBelieved: true }
  }

  #believe(offsetMs: number, atMs: number): void {
    this.#reference = { offsetMs, atMs }
  }

  /** The reference moves slowly, so that a row of small steps cannot lead it astray. */
  #follow(offsetMs: number, atMs: number): void {
    const known = this.#reference ?? { offsetMs, atMs }
    const maxStepMs = (atMs - known.atMs) * slew
    const step = Math.min(maxStepMs, Math.max(-maxStepMs, offsetMs - known.offsetMs))
    this.#believe(known.offsetMs + step, atMs)
  }

  #isConfirmed(offsetMs: number, aheadMs: number, nowMs: number): boolean {
    if (Math.abs(aheadMs) > maxSkewMs) {
      this.#candidate = undefined
      return false
    }
    const candidate = this.#candidate
    if (candidate === undefined || Math.abs(offsetMs - candidate.offsetMs) > agreementMs) {
      this.#candidate = { offsetMs, sinceMs: nowMs, responses: 1 }
      return false
    }
    candidate.responses += 1
    return candidate.responses >= responsesToConfirm && nowMs - candidate.sinceMs >= confirmAfterMs
  }
}
