/**
 * Time added to a window plus jitter, because our clock and that of the service do not run equally fast. At 100 parts
 * in a million they drift 6 ms apart in a minute, the longest window. It also covers that the time of the fastest
 * response is rounded.
 */
const logGuardMs = 6

/** Responses of a smaller limit come so seldom that a short silence says nothing. */
const smallestToKeep = 8
/** The number of requests that must be late before nothing is taken to respond. Fewer may hang alone. */
const enoughLate = 3

interface BudgetOptions {
  /** Number of arrivals that the service admits in any window. */
  readonly limit: number
  readonly windowMs: number
  /** How much the time from departure to arrival varies. */
  readonly latencyJitterMs: number
  /** Time added to a window plus jitter, over which `limit` departures are spread evenly. At least `logGuardMs`. */
  readonly spacingGuardMs: number
  /** Longest delay by a late timer that the following departures may make up for. */
  readonly catchUpMs: number
  readonly startMs: number
}

/**
 * One limit of the service, as a schedule of departures. Three rules hold at once:
 *
 * - Departures are evenly spaced from the first one on. An earlier process at this address spaced its departures, too,
 *   so that both together stay inside the limit. Departures are closer only to make up for late timers.
 * - A log keeps actual departures. A request departs only if the log has fewer than `limit` departures within a window
 *   plus the jitter.
 * - An older departure takes one of the `limit`, too, as long as it has no response. After a standstill of the network
 *   or the service, such requests may arrive together at any moment.
 *
 * These rules imply that no strict window at the service holds more than `limit` arrivals. This holds for any order of
 * arrivals and any delay on the way, as long as a request arrives before its place is given up (`silence.ts`). Consider
 * the last departure among the arrivals of a window. At that moment, each of the others either had no response, or is in
 * the log. A late response corrects the log, so a logged departure is at most the jitter before its arrival. Both kinds
 * were counted, and there were fewer than `limit`. What is late is judged by the fastest response of a day. In a budget of
 * a second, the argument therefore fails if even that one waited before it was counted.
 *
 * For example, the service admits 20 arrivals in any second, the jitter is 100 ms, and the guard of the spacing 17 ms:
 *
 * - Departures are 56 ms apart, which is (1,000 + 100 + 17) / 20.
 * - After 20 departures the next one waits until the first of them is 1,106 ms ago, which is 1,000 + 100 + 6. The
 *   spacing alone does not ensure that, because a departure may catch up with a late timer.
 * - Five requests that departed more than 1,106 ms ago have no response. Only 15 more depart within 1,106 ms, because
 *   those five may still arrive with them.
 */
export class Budget {
  readonly limit: number
  readonly #windowMs: number
  readonly #strictMs: number
  readonly #spacingMs: number
  readonly #catchUpMs: number
  /** The moments of the newest departures in order: at least `limit` of them, or all. */
  readonly #log: number[] = []
  /** Departure times of requests without a response, by number. */
  readonly #open = new Map<number, number>()
  /** Number of the next departure. */
  #next = 0
  #dueMs: number

  constructor(options: BudgetOptions) {
    this.limit = options.limit
    this.#windowMs = options.windowMs
    this.#strictMs = options.windowMs + options.latencyJitterMs + logGuardMs
    this.#spacingMs = (options.windowMs + options.latencyJitterMs + options.spacingGuardMs) / options.limit
    this.#catchUpMs = options.catchUpMs
    this.#dueMs = -Infinity
    this.beginAfterOther(options.startMs)
  }

  /** Delays the next departure: another process may have sent its last request just now, after catching up. */
  beginAfterOther(nowMs: number): void {
    this.#dueMs = Math.max(this.#dueMs, nowMs + this.#spacingMs + this.#catchUpMs)
  }

  /**
   * Returns the earliest moment for the next departure as known now; infinite if only responses can make room.
   *
   * @param respondsWithinMs usual time to a response. A response that takes longer is held up.
   */
  readyAtMs(nowMs: number, respondsWithinMs = 0): number {
    const room = this.limit - this.#overdue(nowMs - Math.max(this.#strictMs, respondsWithinMs))
    if (room <= 0) return Number.POSITIVE_INFINITY
    return Math.max(this.#dueMs, (this.#log.at(-room) ?? Number.NEGATIVE_INFINITY) + this.#strictMs)
  }

  /**
   * Returns true if requests without a response leave no more places than are kept for finding out if anything responds.
   * Some of them must have departed until `untilMs`.
   */
  isNearlyTaken(untilMs: number): boolean {
    if (this.limit < smallestToKeep || this.#open.size < this.limit - Math.floor(this.limit / 4)) return false
    return this.#overdue(untilMs) >= enoughLate
  }

  /**
   * Reserves a place at `nowMs`, which must not be before `readyAtMs()`, for a request that waits since `wantedMs`.
   * Returns its number. A `rate` below 1 makes the next place later, and lets less be made up.
   */
  take(nowMs: number, wantedMs: number, rate: number): number {
    // Unused places expire, because a burst after a quiet time would break the even spacing.
    const placeMs = Math.max(this.#dueMs, wantedMs, nowMs - this.#catchUpMs * rate)
    this.#dueMs = placeMs + this.#spacingMs / rate
    this.#open.set(this.#next, nowMs)
    this.#record(nowMs)
    return this.#next++
  }

  /** Corrects the noted departure of a request without a response, if the request turns out to have left later. */
  postpone(number: number, departedMs: number): void {
    const before = this.#open.get(number)
    if (before === undefined || departedMs <= before) return
    this.#open.set(number, departedMs)
    const index = this.#countUntil(before) - 1
    if (this.#log[index] === before) this.#log.splice(index, 1)
    this.#record(departedMs)
  }

  /** Departure time of a request that has no response yet. */
  departedAtMs(number: number): number | undefined {
    return this.#open.get(number)
  }

  /** Notes that a request has its response, or cannot arrive any more. */
  close(number: number): void {
    this.#open.delete(number)
  }

  /** Counts requests of other processes at the same IP address, as if they had departed now. */
  takeForOthers(nowMs: number, count: number): void {
    for (let i = 0; i < Math.min(count, this.limit); i++) this.#record(nowMs)
  }

  /** Counts the departures later than `sinceMs`, up to the limit. */
  countSince(sinceMs: number): number {
    return Math.min(this.limit, this.#log.length - this.#countUntil(sinceMs))
  }

  used(nowMs: number): number {
    return this.countSince(nowMs - this.#windowMs)
  }

  /** Number of requests that departed until `untilMs` and have no response yet. */
  #overdue(untilMs: number): number {
    let count = 0
    for (const departedMs of this.#open.values()) if (departedMs <= untilMs) count++
    return count
  }

  /** Inserts a moment, almost always at or near the end. Departures that can no longer matter are cut off in bulk. */
  #record(departedMs: number): void {
    this.#log.splice(this.#countUntil(departedMs), 0, departedMs)
    if (this.#log.length > 2 * this.limit) this.#log.splice(0, this.limit)
  }

  /** Counts the logged departures until `untilMs`, by bisection, because the log of a large limit is long. */
  #countUntil(untilMs: number): number {
    let low = 0
    let high = this.#log.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#log[middle] as number) <= untilMs) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The fastest time counts as the ordinary one after this many responses of about that time. */
const minResponses = 30
/**
 * Share by which each slower response raises the fastest time towards its own: half the way in 1.4 million responses,
 * which take most of a day. A service that is slow for hours would otherwise look as if its way were that long. Once it
 * is fast again, everything that waits before its counter arrives at once. A response counts as at most so many jitters
 * slower.
 */
const forgetting = 0.000_000_5
const maxJitters = 4

/**
 * Measures the time from departure to response without any delay on the way: the fastest of a day's responses. A
 * service that is slow from the start looks like a far one.
 */
export class RoundTrip {
  readonly #jitterMs: number
  #fastestMs = Number.POSITIVE_INFINITY
  /** Number of responses that were about as fast as the fastest. */
  #count = 0
  #firstMs = Number.POSITIVE_INFINITY

  constructor(jitterMs: number) {
    this.#jitterMs = jitterMs
  }

  /** The fastest time, rather too short than too long; 0 while few responses are known. */
  get fastestMs(): number {
    return this.#count < minResponses ? 0 : this.#fastestMs
  }

  observe(ms: number): void {
    // A much faster response shows that all before it were held up together, so counting begins again.
    if (ms < this.#firstMs - this.#jitterMs) {
      this.#count = 0
      this.#firstMs = ms
      this.#fastestMs = ms
    }
    if (ms <= this.#fastestMs + this.#jitterMs) this.#count++
    const slowerMs = Math.min(ms - this.#fastestMs, maxJitters * this.#jitterMs)
    this.#fastestMs = Math.min(ms, this.#fastestMs + slowerMs * forgetting)
  }
}
