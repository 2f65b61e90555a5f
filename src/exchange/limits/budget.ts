/** A margin for errors that no response reveals: the drift of clocks, and the rounding of the fastest response. */
const logGuardMs = 6

interface BudgetOptions {
  /** How many arrivals the service admits in any window. */
  readonly limit: number
  readonly windowMs: number
  /** How much later than another a request may arrive after its departure. */
  readonly latencyJitterMs: number
  /** How much longer than a window plus jitter `limit` evenly spaced departures take. At least the log's guard. */
  readonly spacingGuardMs: number
  /** How far departures may lag behind their places, because of late timers, and still make up for it. */
  readonly catchUpMs: number
  readonly startMs: number
}

/**
 * One limit of the service, as a schedule of departures. Three rules hold at once:
 * - even spacing, from the first request on: so that a predecessor process of which nothing is known, spaced evenly
 *   too, and this one stay inside the limit together. Only what late timers have cost may be made up for;
 * - a log of actual departures: of those within a window plus the jitter there are fewer than `limit` when the next one departs;
 * - one that departed before that and has no response yet takes one of the `limit` as long as that lasts: a network or a service
 *   that stood still may count it at any moment from now on, together with all others that wait there.
 *
 * Why no strict window at the service holds more than `limit` arrivals, however late timers fire, in whatever order requests arrive
 * and however long some are held up: take the one that departed last of those that arrive within a window. When it departed,
 * each of the others had no response yet, or is in the log with a departure that is at most the jitter before its arrival (a late
 * response corrects it). Both kinds were counted then, and there were fewer than `limit`.
 */
export class Budget {
  readonly limit: number
  readonly #windowMs: number
  readonly #strictMs: number
  readonly #spacingMs: number
  readonly #catchUpMs: number
  /** The moments of departure by place, the newest at `#next - 1`: a ring of twice the limit. */
  readonly #log: Float64Array
  /** The moments as first noted, which are in order: they say where to stop counting. */
  readonly #noted: Float64Array
  /** Departure times of requests that have no response yet, by their number. */
  readonly #open = new Map<number, number>()
  #maxPostponedMs = 0
  /** Number of the next departure. */
  #next = 0
  #dueMs: number

  constructor(options: BudgetOptions) {
    this.limit = options.limit
    this.#windowMs = options.windowMs
    this.#strictMs = options.windowMs + options.latencyJitterMs + logGuardMs
    this.#spacingMs = (options.windowMs + options.latencyJitterMs + options.spacingGuardMs) / options.limit
    this.#catchUpMs = options.catchUpMs
    this.#log = new Float64Array(options.limit * 2).fill(Number.NEGATIVE_INFINITY)
    this.#noted = this.#log.slice()
    this.#dueMs = -Infinity
    this.beginAfterOther(options.startMs)
  }

  /** Begins, or begins again, behind a predecessor that may have sent its last request a moment ago, and have caught up before. */
  beginAfterOther(nowMs: number): void {
    this.#dueMs = Math.max(this.#dueMs, nowMs + this.#spacingMs + this.#catchUpMs)
  }

  /**
   * The earliest moment for the next departure as far as is known now; infinite when only responses can make room.
   *
   * @param respondsWithinMs longer than that a response takes only when something is held up
   */
  readyAtMs(nowMs: number, respondsWithinMs = 0): number {
    const room = this.limit - this.#overdue(nowMs - Math.max(this.#strictMs, respondsWithinMs))
    if (room <= 0) return Number.POSITIVE_INFINITY
    const readyMs = Math.max(this.#dueMs, this.#departure(room) + this.#strictMs)
    if (readyMs > nowMs || this.countSince(nowMs - this.#strictMs, room) < room) return readyMs
    // Corrected departures are not in order: some of those further back are later.
    return (this.#log.toSorted().at(-room) as number) + this.#strictMs
  }

  /**
   * Reserves a place at `nowMs`, which is not before `readyAtMs()`, for a request that is there since `wantedMs`, and
   * returns its number. `rate` below 1 makes the next place later.
   */
  take(nowMs: number, wantedMs: number, rate: number): number {
    // Unused places expire: a burst after a quiet time would not be even.
    const placeMs = Math.max(this.#dueMs, wantedMs, nowMs - this.#catchUpMs)
    this.#dueMs = placeMs + this.#spacingMs / rate
    this.#open.set(this.#next, nowMs)
    return this.#record(nowMs)
  }

  /** Corrects the noted departure of a request without a response, when it turns out to have left later. */
  postpone(number: number, departedMs: number, nowMs: number): void {
    const before = this.#open.get(number)
    if (before === undefined || departedMs <= before) return
    this.#open.set(number, departedMs)
    const size = this.#log.length
    if (number < this.#next - size) {
      // A later departure has its place in the log, so record it again, as if it had departed now.
      if (departedMs > nowMs - this.#strictMs) this.#record(nowMs)
      return
    }
    const place = number % size
    this.#log[place] = departedMs
    this.#maxPostponedMs = Math.max(this.#maxPostponedMs, departedMs - (this.#noted[place] as number))
  }

  /** Departure time of a request that has no response yet. */
  departedAtMs(number: number): number | undefined {
    return this.#open.get(number)
  }

  /** Notes that a request has its response, or will get none. */
  close(number: number): void {
    this.#open.delete(number)
  }

  /** Counts requests of others on the same IP as if they had departed now. */
  takeForOthers(nowMs: number, count: number): void {
    for (let i = 0; i < Math.min(count, this.limit); i++) this.#record(nowMs)
  }

  /** How many departures were later than `sinceMs`, up to `max` and to twice the limit. */
  countSince(sinceMs: number, max = Number.POSITIVE_INFINITY): number {
    const size = this.#log.length
    // Departures are only moved later, so all that were noted after `sinceMs` count. Those noted up to
    // `#maxPostponedMs` earlier may have been moved beyond it.
    let count = this.#notedSince(sinceMs)
    const stopMs = sinceMs - this.#maxPostponedMs
    for (let back = count + 1; back <= size && count < max; back++) {
      const place = this.#placeOf(back)
      if ((this.#noted[place] as number) <= stopMs) break
      if ((this.#log[place] as number) > sinceMs) count++
    }
    return Math.min(count, max)
  }

  used(nowMs: number): number {
    return Math.min(this.limit, this.countSince(nowMs - this.#windowMs))
  }

  /** Number of requests that departed until `untilMs` and have no response yet. */
  #overdue(untilMs: number): number {
    let count = 0
    for (const departedMs of this.#open.values()) if (departedMs <= untilMs) count++
    return count
  }

  /** How many were noted later than `sinceMs`: found by halving, because limits may be large and each response asks. */
  #notedSince(sinceMs: number): number {
    let low = 0
    let high = this.#log.length
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#noted[this.#placeOf(middle)] as number) > sinceMs) low = middle
      else high = middle - 1
    }
    return low
  }

  /** The moment of the departure `back` places before the next one. */
  #departure(back: number): number {
    return this.#log[this.#placeOf(back)] as number
  }

  #placeOf(back: number): number {
    const size = this.#log.length
    return (this.#next - back + size) % size
  }

  #record(nowMs: number): number {
    const number = this.#next++
    const place = number % this.#log.length
    this.#log[place] = nowMs
    this.#noted[place] = nowMs
    return number
  }
}

/** The fastest response counts as the ordinary one after this many of about the same time. */
const minResponses = 30
/** How quickly a fastest time that is never met again is given up: half of it in some 1,400 responses. */
const forgetting = 0.000_5

/** The time from departure to response without any delay on the way: the fastest of the recent ones. */
export class RoundTrip {
  readonly #jitterMs: number
  #fastestMs = Number.POSITIVE_INFINITY
  /** Responses that were about as fast as the first of them. */
  #count = 0
  #firstMs = Number.POSITIVE_INFINITY

  constructor(jitterMs: number) {
    this.#jitterMs = jitterMs
  }

  /** Too short rather than too long: 0 as long as little is known. */
  get fastestMs(): number {
    return this.#count < minResponses ? 0 : this.#fastestMs
  }

  observe(ms: number): void {
    // Responses that were all held up together tell nothing about others.
    if (ms < this.#firstMs - this.#jitterMs) {
      this.#count = 0
      this.#firstMs = ms
      this.#fastestMs = ms
    }
    if (ms <= this.#fastestMs + this.#jitterMs) this.#count++
    this.#fastestMs = Math.min(ms, this.#fastestMs + (ms - this.#fastestMs) * forgetting)
  }
}
