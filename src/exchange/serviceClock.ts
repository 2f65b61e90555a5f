import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'

/** A response with the moments that it shows. */
interface ResponseTimes {
  /** The service's clock of the response. */
  readonly requestTime: TimeMs
  /** Our clock when the response was there. */
  readonly receivedAt: TimeMs
}

/** How far a response's clock may be off from ours, or from what the service's was before. */
const toleranceMs = 5 * 60_000
/** Our clock is wrong, and not the responses', when this many in a row tell the same for this long. */
const responsesToConfirm = 10
const confirmAfterMs = 30_000
const agreementMs = 30_000
/** A clock that is off by more is to be set, whatever the service says. */
const maxSkewMs = 24 * 3_600_000
/** Largest correction of the reference, as a share of the time that passes. Clocks do not drift faster than this. */
const slew = 0.01

/**
 * Tells whether the time in a response can be the service's. One response with a wrong clock would do harm for good: rows from the
 * future stay the newest, and what is known of an instrument would be newer than everything to come.
 *
 * A response is believed when its time agrees with our clock, or with what the service's was by the responses believed before.
 * If this machine's clock is wrong, all responses disagree with it in the same way: after a while of that, they are believed.
 */
export class ServiceClock {
  readonly #clock: Clock
  /** The service's time minus the monotonic clock, and when that was found. */
  #reference: { readonly offsetMs: number; readonly atMs: number } | undefined
  /** Responses in a row that disagree with us and agree with each other. */
  #candidate: { readonly offsetMs: number; readonly sinceMs: number; responses: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Judges a response. One that is not believed is so far ahead of the expected time, or behind it where negative. */
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
