import type { TimeMs } from '../../market/values.js'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'

/** A response with the three moments that it shows. */
interface TimedResponse {
  /** Our clock when the request left. */
  readonly sentAt: TimeMs
  /** The service's clock when it answered. */
  readonly requestTime: TimeMs
  /** Our clock when the response was there. */
  readonly receivedAt: TimeMs
}

interface Skew {
  /** How far our clock is ahead of the service's, in milliseconds. */
  readonly aheadMs: number
  /** The true value is no further away than this: half the round trip. */
  readonly uncertaintyMs: number
}

/** Beyond this the warning comes. Nothing is decided by our clock, but whoever compares `received_at` with `ts` is misled. */
const warnBeyondMs = 1_000
const windowMs = 60_000

/** Measures our clock against the service's: by the response with the shortest round trip of the last minute. */
export class ClockSkew {
  readonly #clock: Clock
  readonly #logger: Logger
  #best: (Skew & { readonly atMs: number; readonly requestTime: TimeMs }) | undefined
  #isWarned = false

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  observe({ sentAt, requestTime, receivedAt }: TimedResponse): void {
    // Our clock was set meanwhile: the response says nothing.
    if (receivedAt < sentAt) return
    const atMs = this.#clock.monotonicMs()
    const uncertaintyMs = (receivedAt - sentAt) / 2
    const best = this.#best
    if (best === undefined || uncertaintyMs <= best.uncertaintyMs || atMs - best.atMs > windowMs) {
      this.#best = { aheadMs: (sentAt + receivedAt) / 2 - requestTime, uncertaintyMs, atMs, requestTime }
      this.#judge()
    }
  }

  /** null before the first response. */
  get skew(): Skew | null {
    return this.#best ?? null
  }

  /** Time of the service's clock, even if this machine's clock was set since; null before the first response. */
  serviceNow(): TimeMs | null {
    return this.#best === undefined ? null : this.#best.requestTime + this.#clock.monotonicMs() - this.#best.atMs
  }

  #judge(): void {
    if (this.#best === undefined) return
    const { aheadMs, uncertaintyMs } = this.#best
    const isOff = Math.abs(aheadMs) - uncertaintyMs > warnBeyondMs
    if (isOff === this.#isWarned) return
    this.#isWarned = isOff
    const off = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the service's`
    if (isOff)
      this.#logger.warn(
        `clock: this machine's is ${off}; received_at is off by that; check this machine's time service`,
      )
    else this.#logger.info("clock: this machine's agrees with the service's again")
  }
}
