import { byOperation, type Operation } from '../../market/operation.js'
import { hourMs } from '../../market/values.js'
import type { Logger } from '../../runtime/logger.js'
import { Refusals } from './refusals.js'

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
  | {
      readonly outcome: 'rate-limited'
      readonly retryAfterMs?: number | undefined
      /** The refusal may concern its target alone. Others concern the address. */
      readonly mayBeOwn?: true
      /** It concerns the address, unless a target or an operation turns out to be alone with it. */
      readonly mayBeAlone?: true
    }
  /** No response came, which tells nothing about the limits. With `isGivenUp` the request may still arrive. */
  | { readonly outcome: 'failed'; readonly isGivenUp?: true }

/**
 * Pause after a first rejection, which is taken for the limit of a second. Further rejections soon afterwards suggest
 * that the address is blocked.
 */
export const firstPauseMs = 1_500
/** How long the service blocks an address that went over its limits. */
export const blockMs = 300_000
/** A rejection within this time after a pause counts as a repetition, and doubles the next pause. */
const memoryMs = 60_000
/** After so many responses since the last pause, a rejection is scattered, and calls for no longer pause. */
const enoughToBeScattered = 20
/** After so many responses of others without a rejection, the limit of an operation is certain, and it climbs slowly. */
const enoughToBeCertain = 1_000
/** Share of the full rate just after a pause that was not for a scattered rejection, and the time to the full rate. */
const rateAfterPause = 0.5
const recoveryMs = 50_000
/** Share of its operation's rate that a rejection leaves. Half is left where few responses came since the last one. */
const leftByScattered = 0.9
const leftByRepeated = 0.5
const fewResponses = 10
/** The time in which the rate of all climbs from nothing to all. */
const climbMs = 400_000
/** The share of one operation has doubled after this time. It climbs slowly at first, and so seldom goes too far. */
const doublesAfterMs = 200_000
/** A longer time between two responses of an operation tells no more about its limit. */
const longestAskedMs = 60_000
/** No share is lower, because an operation that is never asked would never climb. */
const lowestShare = 0.01
/** Share of the overall rate that a block leaves, and the time in which that doubles, slowly at first. */
const leftByBlock = 0.8
const blockForgottenMs = 4 * hourMs
/** Rejections of single targets in a row that are passed over. The next one pauses as if each had paused, too. */
const maxPassedOver = 2

/**
 * Holds requests back after rejections. States: open, then paused, then probing, then open at a lower rate that
 * recovers. While probing, one request alone finds out whether the service responds again.
 *
 * - A rejection soon after a pause doubles the next pause, up to the length of a block. All requests then resume at half
 *   rate, and those of its operation keep to half of theirs for longer.
 * - A rejection after twenty responses since the last pause is scattered. It pauses shortly and takes a tenth of the rate
 *   of its operation. The operation thus climbs again and again to the limit that it met, and stays near it.
 * - A rejection for a limit counts as scattered, too, if twenty others had responses since an operation alone is rejected,
 *   one of them after the last pause. The service then admits the address.
 * - The share of an operation climbs only while the operation has responses, so that a pause forgets nothing.
 * - What is known to be about the address lowers the rates of all operations so.
 * - Pauses as long as a block take a fifth of the overall rate for hours, because the overall limit may be lower.
 *
 * A rejection that is believed to concern its target alone (`Refusals`) is passed over. If no request that departed
 * later has had a response yet, the address is in doubt: as while probing, one request departs at a time until one that
 * departed later has a response. In a block this makes no more requests than pausing at once, because the pauses that
 * were left out make the first one longer.
 */
export class Penalty {
  readonly #logger: Logger
  #pausedAtMs = Number.NEGATIVE_INFINITY
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** When the pauses began after which no request has had a response yet. */
  #closedAtMs = 0
  #resumedAtMs = Number.NEGATIVE_INFINITY
  #lastPauseMs = 0
  /** Responses to requests that departed after the last pause began. */
  #responses = 0
  /** The operation that alone has met limits of late. Responses of others since then, and since the last pause began. */
  #rejected: Operation | undefined
  #others = { inARow: 0, sincePause: 0 }
  /** The last pause was for a scattered rejection. */
  #isScattered = false
  /** End of the last other pause. The rate of all recovers from there. */
  #slowedAtMs = Number.NEGATIVE_INFINITY
  /** The share of the overall limit that blocks have left, and since when it climbs. */
  #ofOverall = { share: 1, sinceMs: 0 }
  /** The share that is left to all operations, and since when it climbs. */
  #ofAll = { share: 1, sinceMs: 0 }
  /** The lowered share of each operation's rate, and for how long the operation was asked since. */
  readonly #lowered = byOperation(() => ({ share: 1, isCertain: false, responses: 0, askedMs: 0, respondedMs: 0 }))
  #mustProbe = false
  #probe: Departure | undefined
  readonly #refusals = new Refusals()
  /** The target whose rejection may be its own, if its pause is not over yet. */
  #suspect: string | undefined
  /** Rejections that were passed over while the address is in doubt, and when the newest of them departed. */
  #passedOver = 0
  #doubtedMs = Number.NEGATIVE_INFINITY
  /** The target whose rejection was passed over last. */
  #passedTarget: string | undefined
  /** When the newest request with a response departed. */
  #admittedMs = Number.NEGATIVE_INFINITY

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

  /** Returns the share of an operation's full rate that may be used: less than 1 for a while after a rejection. */
  rateOf(operation: Operation, nowMs: number): number {
    return Math.min(this.rate(nowMs), this.#shareOfAll(nowMs), this.#shareOf(operation))
  }

  /** Returns the share of the full rate of all operations together. */
  rate(nowMs: number): number {
    const resumedAtMs = this.#isScattered ? this.#slowedAtMs : Math.max(this.#resumedAtMs, this.#pausedUntilMs)
    const sinceMs = Math.max(0, nowMs - resumedAtMs)
    return Math.min(1, rateAfterPause + ((1 - rateAfterPause) * sinceMs) / recoveryMs)
  }

  /** Returns the share of the overall limit that may be used. A block suggests that the service admits less. */
  overallRate(nowMs: number): number {
    return Math.min(this.rate(nowMs), this.#shareOfOverall(nowMs))
  }

  /** True while one request at a time finds out about the address. */
  get mustProbe(): boolean {
    return this.#mustProbe || this.#passedOver > 0
  }

  /** Which targets make good probes, the best first: those with a response, then those without a refusal. */
  get goodProbes(): readonly ((target: string | undefined) => boolean)[] {
    const refusals = this.#refusals
    return [(target) => refusals.isAdmitted(target), (target) => !refusals.isRefused(target)]
  }

  depart(departure: Departure): void {
    if (this.mustProbe) this.#probe = departure
  }

  /**
   * Returns true if a rejection concerns the operation alone, which has to pause by itself.
   *
   * @param target of the request, if it is known
   */
  settle(departure: Departure, settlement: Settlement, nowMs: number, target?: string): boolean {
    const isProbe = this.#probe === departure
    if (isProbe) this.#probe = undefined
    if (settlement.outcome === 'response') this.#respond(departure, target, isProbe, nowMs)
    if (settlement.outcome !== 'rate-limited') return false
    const { operation } = departure
    const { mayBeOwn = false, mayBeAlone = false, retryAfterMs = 0 } = settlement
    const limited = mayBeAlone && !mayBeOwn ? operation : undefined
    if (limited === undefined || limited !== this.#rejected) this.#others.inARow = 0
    this.#rejected = limited
    // A rejected request that departed before the pause calls for no further pause.
    if (departure.atMs <= this.#pausedAtMs) return false
    const othersRespond = this.#refusals.refused(operation, target)
    const about = mayBeAlone ? this.#refusals.refusedAlone(operation, target) : undefined
    if (about === 'operation' && !this.#mustProbe) return true
    const isAlone = about === 'target'
    const suspect = isAlone || (mayBeOwn && othersRespond) ? target : undefined
    if (suspect !== undefined && this.#passOver(departure, suspect, { isProbe, isAlone }, nowMs)) return false
    // If another target has a response after this pause, the rejection was the suspect's own.
    this.#suspect = mayBeOwn && !this.#mustProbe ? suspect : undefined
    this.#punish(mayBeAlone ? operation : undefined, nowMs, retryAfterMs)
    return false
  }

  #respond(departure: Departure, target: string | undefined, isProbe: boolean, nowMs: number): void {
    const { operation } = departure
    if (departure.atMs > this.#pausedAtMs) this.#count(operation, nowMs)
    this.#refusals.responded(operation, target)
    this.#admittedMs = Math.max(this.#admittedMs, departure.atMs)
    if (!this.#mustProbe && this.#admittedMs > this.#doubtedMs) {
      this.#passedOver = 0
      this.#probe = undefined
    }
    if (!this.#mustProbe || !isProbe) return
    this.#mustProbe = false
    this.#resumedAtMs = nowMs
    if (nowMs - this.#closedAtMs >= blockMs)
      this.#ofOverall = { share: leftByBlock * this.#shareOfOverall(nowMs), sinceMs: nowMs }
    if (!this.#isScattered) this.#slowedAtMs = nowMs
    if (this.#suspect !== undefined && this.#suspect !== target) this.#refusals.believe(this.#suspect, nowMs)
    this.#logger.info('the service responds again: requests resume at a lower rate')
  }

  #count(operation: Operation, nowMs: number): void {
    this.#responses++
    if (operation !== this.#rejected) {
      this.#others.inARow++
      this.#others.sincePause++
    }
    const lowered = this.#lowered[operation]
    lowered.responses++
    lowered.askedMs += Math.min(nowMs - lowered.respondedMs, longestAskedMs)
    lowered.respondedMs = nowMs
  }

  /** Returns false if a rejection must pause everything. */
  #passOver(
    { atMs }: Departure,
    target: string,
    { isProbe, isAlone }: { readonly isProbe: boolean; readonly isAlone: boolean },
    nowMs: number,
  ): boolean {
    if (this.#mustProbe || !(isAlone || this.#refusals.areBelieved(nowMs))) return false
    if (atMs >= this.#admittedMs) {
      // Requests that were under way when the doubt began tell no more than the first, and nor do repetitions.
      const isFurther = (isProbe && !(isAlone && target === this.#passedTarget)) || this.#passedOver === 0
      this.#passedTarget = target
      if (isFurther && this.#passedOver >= maxPassedOver) return false
      if (isFurther) this.#passedOver++
      this.#doubtedMs = Math.max(this.#doubtedMs, atMs)
    }
    if (!isAlone) this.#refusals.believe(target, nowMs)
    this.#logger.debug({ target }, 'the service refuses this alone: nothing pauses')
    return true
  }

  #shareOf(operation: Operation): number {
    const { share, askedMs, isCertain } = this.#lowered[operation]
    const soon = isCertain ? 0 : askedMs / climbMs
    return Math.min(1, share * (1 + soon + (askedMs / doublesAfterMs) ** 3))
  }

  #shareOfOverall(nowMs: number): number {
    const { share, sinceMs } = this.#ofOverall
    return Math.min(1, share * (1 + ((nowMs - sinceMs) / blockForgottenMs) ** 3))
  }

  #shareOfAll(nowMs: number): number {
    return Math.min(1, this.#ofAll.share + (nowMs - this.#ofAll.sinceMs) / climbMs)
  }

  /** Lowers the share of the operation that the rejection is about, or of all. */
  #lower(about: Operation | undefined, isRepeated: boolean, nowMs: number): void {
    const left = isRepeated ? leftByRepeated : this.#isScattered ? leftByScattered : 1
    if (about === undefined) {
      this.#ofAll = { share: left * this.#shareOfAll(nowMs), sinceMs: nowMs }
      return
    }
    const isEarly = this.#isScattered && this.#lowered[about].responses < fewResponses
    const share = Math.max(lowestShare, (isEarly ? leftByRepeated : left) * this.#shareOf(about))
    const isCertain = this.#others.inARow >= enoughToBeCertain
    this.#lowered[about] = { share, isCertain, responses: 0, askedMs: 0, respondedMs: nowMs }
  }

  #punish(about: Operation | undefined, nowMs: number, retryAfterMs: number): void {
    const isOfOne = !this.#mustProbe && this.#others.inARow >= enoughToBeScattered && this.#others.sincePause > 0
    this.#isScattered = isOfOne || this.#responses >= enoughToBeScattered
    const isRepeated = !this.#isScattered && (this.#mustProbe || nowMs - this.#resumedAtMs < memoryMs)
    // A refused probe tells nothing new about rates, and what may be a target's own tells nothing.
    if (!this.#mustProbe && this.#suspect === undefined) this.#lower(about, isRepeated, nowMs)
    const nextMs = isRepeated ? Math.max(firstPauseMs, 2 * this.#lastPauseMs) : firstPauseMs
    this.#lastPauseMs = Math.min(blockMs, nextMs * 2 ** this.#passedOver)
    const pauseMs = Math.max(this.#lastPauseMs, Math.min(retryAfterMs, blockMs))
    this.#passedOver = 0
    this.#responses = 0
    this.#others.sincePause = 0
    if (!this.#mustProbe) this.#closedAtMs = nowMs
    this.#pausedAtMs = nowMs
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + pauseMs)
    this.#mustProbe = true
    this.#logger.warn({ pauseMs }, 'the service rejects requests: every operation pauses')
  }
}
