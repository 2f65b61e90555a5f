import type { TimeMs } from '../../market/values.js'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'

/** A response with the three moments that tell the skew. */
interface TimedResponse {
  /** Our clock when the request left. */
  readonly sentAt: TimeMs
  /** The service's clock when it responded. */
  readonly requestTime: TimeMs
  /** Our clock when the response was there. */
  readonly receivedAt: TimeMs
}

interface Skew {
  /** How far our clock is ahead of the service's, in milliseconds. */
  readonly aheadMs: number
  /** Half the round trip. The true skew differs from `aheadMs` by no more than this. */
  readonly uncertaintyMs: number
}

/** A larger skew is logged, because it misleads readers who compare `received_at` with `ts`. */
const warnBeyondMs = 1_000
const replaceAfterMs = 60_000

/**
 * Measures our clock against the service's, by the response with the shortest round trip. After a minute, the next
 * response replaces it.
 */
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
    // Our clock was set back during the request, so the response tells nothing about the skew.
    if (receivedAt < sentAt) return
    const atMs = this.#clock.monotonicMs()
    const uncertaintyMs = (receivedAt - sentAt) / 2
    const best = this.#best
    if (best === undefined || uncertaintyMs <= best.uncertaintyMs || atMs - best.atMs > replaceAfterMs) {
      this.#best = { aheadMs: (sentAt + receivedAt) / 2 - requestTime, uncertaintyMs, atMs, requestTime }
      this.#judge()
    }
  }

  /** The measured skew; null before the first response. */
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
