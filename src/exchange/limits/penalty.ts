import type { Operation } from '../../market/stream.js'
import type { Logger } from '../../runtime/logger.js'

/** A reserved place: the request is to be sent now, and settled when its response is known. */
export interface Departure {
  readonly operation: Operation
  readonly atMs: number
  /** Its number in its operation's budget, and in that of all. */
  readonly number: number
  readonly overallNumber: number
}

export type Settlement =
  | { readonly outcome: 'response'; readonly remaining?: number | undefined }
  | { readonly outcome: 'rate-limited'; readonly retryAfterMs?: number | undefined }
  /** No response: it tells nothing about the limits. */
  | { readonly outcome: 'failed' }

/** The pause after going over the limit of a second. Only a further rejection at once is taken for a block. */
const firstPauseMs = 1_500
/** A further rejection within this time after a pause counts as the same trouble. */
const memoryMs = 60_000
/** Half speed after a pause, full speed so long after. */
const rateAfterPause = 0.5
const recoveryMs = 50_000

/**
 * Holds requests back after rejections. States: open, then paused, then probing (one request alone finds out whether
 * the service responds again), then open at a lower rate that recovers. A rejection in the pause's wake doubles the
 * next pause, up to the length of a block.
 */
export class Penalty {
  readonly #blockMs: number
  readonly #logger: Logger
  #pausedAtMs = Number.NEGATIVE_INFINITY
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  #resumedAtMs = Number.NEGATIVE_INFINITY
  #lastPauseMs = 0
  #mustProbe = false
  #probe: Departure | undefined

  constructor(blockMs: number, logger: Logger) {
    this.#blockMs = blockMs
    this.#logger = logger
  }

  /** When departures may go on. */
  readyAtMs(): number {
    return this.#pausedUntilMs
  }

  /** True while a probe is under way: nothing else may depart. */
  get awaitsProbe(): boolean {
    return this.#probe !== undefined
  }

  /** The share of the full rate that may be used: 1 unless a pause was short ago. */
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
      // A request from before the pause belongs to the trouble that caused it.
      if (departure.atMs < this.#pausedAtMs) return
      this.#punish(nowMs, settlement.retryAfterMs ?? 0)
    } else if (isProbe && settlement.outcome === 'response') {
      this.#mustProbe = false
      this.#resumedAtMs = nowMs
      this.#logger.info('the service responds again: requests resume at half rate')
    }
  }

  pause(nowMs: number, ms: number): void {
    this.#pausedAtMs = nowMs
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + ms)
    this.#mustProbe = true
  }

  #punish(nowMs: number, retryAfterMs: number): void {
    const isRepeated = this.#mustProbe || nowMs - this.#resumedAtMs < memoryMs
    this.#lastPauseMs = Math.min(
      this.#blockMs,
      isRepeated ? Math.max(firstPauseMs, 2 * this.#lastPauseMs) : firstPauseMs,
    )
    const pauseMs = Math.max(this.#lastPauseMs, Math.min(retryAfterMs, 2 * this.#blockMs))
    this.pause(nowMs, pauseMs)
    this.#logger.warn({ pauseMs }, 'the service rejects requests (429): every operation pauses')
  }
}
