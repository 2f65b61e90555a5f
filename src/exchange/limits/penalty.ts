import type { Operation } from '../../market/operation.js'
import type { Logger } from '../../runtime/logger.js'

/** A reserved place. Its request must be sent now, and settled when its response is known. */
export interface Departure {
  readonly operation: Operation
  readonly atMs: number
  /** Number of the departure in the budget of its operation; `overallNumber` is that in the overall budget. */
  readonly number: number
  readonly overallNumber: number
}

export type Settlement =
  | { readonly outcome: 'response'; readonly remaining?: number | undefined }
  | { readonly outcome: 'rate-limited'; readonly retryAfterMs?: number | undefined }
  /** No response came, which tells nothing about the limits. */
  | { readonly outcome: 'failed' }

/**
 * Pause after a first rejection, which is taken for the limit of a second. Further rejections soon afterwards suggest
 * that the address is blocked.
 */
const firstPauseMs = 1_500
/** How long the service blocks an address that went over its limits. */
const blockMs = 300_000
/** A rejection within this time after a pause counts as a repetition, and doubles the next pause. */
const memoryMs = 60_000
/** Share of the full rate just after a pause, and the time until the full rate is reached again. */
const rateAfterPause = 0.5
const recoveryMs = 50_000

/**
 * Holds requests back after rejections. States: open, then paused, then probing, then open at a lower rate that
 * recovers. While probing, one request alone finds out whether the service responds again. A rejection soon after a
 * pause doubles the next pause, up to the length of a block.
 */
export class Penalty {
  readonly #logger: Logger
  #pausedAtMs = Number.NEGATIVE_INFINITY
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  #resumedAtMs = Number.NEGATIVE_INFINITY
  #lastPauseMs = 0
  #mustProbe = false
  #probe: Departure | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Returns when departures may go on. */
  readyAtMs(): number {
    return this.#pausedUntilMs
  }

  /** True while a probe is under way, because no other request may depart then. */
  get isProbing(): boolean {
    return this.#probe !== undefined
  }

  /** Returns the share of the full rate that may be used: less than 1 for a while after a pause. */
  rate(nowMs: number): number {
    const sinceMs = Math.max(0, nowMs - Math.max(this.#resumedAtMs, this.#pausedUntilMs))
    return Math.min(1, rateAfterPause + ((1 - rateAfterPause) * sinceMs) / recoveryMs)
  }

  depart(departure: Departure): void {
    if (this.#mustProbe) this.#probe = departure
  }

  settle(departure: Departure, settlement: Settlement, nowMs: number): void {
    const isProbe = this.#probe === departure
    if (isProbe) this.#probe = undefined
    if (settlement.outcome === 'rate-limited') {
      // A rejected request that departed before the pause calls for no further pause.
      if (departure.atMs < this.#pausedAtMs) return
      this.#punish(nowMs, settlement.retryAfterMs ?? 0)
    } else if (isProbe && settlement.outcome === 'response') {
      this.#mustProbe = false
      this.#resumedAtMs = nowMs
      this.#logger.info('the service responds again: requests resume at half rate')
    }
  }

  #punish(nowMs: number, retryAfterMs: number): void {
    const isRepeated = this.#mustProbe || nowMs - this.#resumedAtMs < memoryMs
    this.#lastPauseMs = Math.min(blockMs, isRepeated ? Math.max(firstPauseMs, 2 * this.#lastPauseMs) : firstPauseMs)
    const pauseMs = Math.max(this.#lastPauseMs, Math.min(retryAfterMs, 2 * blockMs))
    this.#pausedAtMs = nowMs
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + pauseMs)
    this.#mustProbe = true
    this.#logger.warn({ pauseMs }, 'the service rejects requests: every operation pauses')
  }
}
