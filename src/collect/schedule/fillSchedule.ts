import { backoffMs } from '../../runtime/backoff.js'
import type { TimeMs } from '../../market/values.js'
import { fillsPerPage } from '../../market/fill.js'
import { type TradeSign } from '../../market/ticker.js'
import { FillEstimate, maxUnevenness, type SeenFill } from './fillEstimate.js'
import { longestWaitMs } from './fillWait.js'

export type { SeenFill } from './fillEstimate.js'

export interface FillScheduleOptions {
  /** Least time between two requests for an instrument. */
  readonly minPollMs: number
  /** Most time between two requests for an instrument whose responses bring something new. */
  readonly maxPollMs: number
}

export interface FillLoad {
  /** Of all instruments together, by their usual rates. */
  readonly fillsPerSecond: number
  /** Responses whose page was full of new fills, since the start: fills may have been lost before them. */
  readonly late: number
}

interface Entry<Target> {
  readonly target: Target
  readonly estimate: FillEstimate
  /** Since then it has waited for its first response, or for another one where the last was lost. */
  sinceMs: number
  /** On the monotonic clock; null before the first response, and where the last one was lost. */
  respondedMs: number | null
  /** Responses in a row that brought nothing new. */
  empty: number
  failures: number
  failedMs: number
  isAsked: boolean
}

/** Fewer fills than this are not worth a request of their own yet. */
const dueFills = 3
/** What is expected of an instrument whose estimates are far out counts for more: its page may be full long before. */
const unevennessPower = 0.25
const maxUnevennessFactor = 1.01 * maxUnevenness ** unevennessPower
const maxBackoffMs = 30_000
/** Every so many choices go to whoever has waited for longest beyond its time, and to those never answered. */
const overdueEvery = 4
const firstEvery = 2

/**
 * Decides at each request that may depart whose fills are asked for.
 *
 * What it maximises is the number of fills that are captured. A response shows the newest 100, so what matters is who has most
 * that no response showed: on recorded tapes a schedule that knew that number, and nothing of the future, would capture 99 % of
 * what one that knows the future does; one that knew it as of a second ago, 91 to 95 %. So the choice is the instrument with the
 * most fills expected unseen, by what is known at that moment, those a little before others whose estimates are often far out.
 * Nothing is decided ahead: a ticker that arrives while a request waits changes who is asked.
 *
 * Nobody starves. Instruments never answered get every second choice until each has been, the busiest first: n of them are asked
 * within 2 n requests. Whoever has gone unasked for its longest time gets every fourth choice, those first that have waited for
 * longest: of n instruments nobody who trades waits for longer than maxPollMs and the time of 4 n requests. The longest time
 * doubles with each response that brings nothing, up to an hour, whatever the ticker claims, and is back with the first fill.
 * Times are of the monotonic clock.
 */
export class FillSchedule<Target> {
  readonly #keyOf: (target: Target) => string
  readonly #options: FillScheduleOptions
  readonly #entries = new Map<string, Entry<Target>>()
  /** For the loop over all at each choice. */
  #list: Entry<Target>[] = []
  /** What the service's clock shows beyond the monotonic one. */
  #offsetMs: number | null = null
  #choices = 0
  #late = 0

  constructor(keyOf: (target: Target) => string, options: FillScheduleOptions) {
    this.#keyOf = keyOf
    this.#options = options
  }

  /** Replaces the instruments. New ones are due at once; what is known of the others stays. */
  retarget(targets: readonly Target[], nowMs: number): void {
    const wanted = new Map(targets.map((target) => [this.#keyOf(target), target]))
    for (const key of this.#entries.keys()) if (!wanted.has(key)) this.#entries.delete(key)
    for (const [key, target] of wanted) {
      if (this.#entries.has(key)) continue
      this.#entries.set(key, {
        target,
        estimate: new FillEstimate(),
        sinceMs: nowMs,
        respondedMs: null,
        empty: 0,
        failures: 0,
        failedMs: nowMs,
        isAsked: false,
      })
    }
    this.#list = [...this.#entries.values()]
  }

  targets(): Target[] {
    return this.#list.map(({ target }) => target)
  }

  /** Takes fills per millisecond as an earlier run has recorded them, for the time until the first response. */
  assume(target: Target, rate: number): void {
    this.#entries.get(this.#keyOf(target))?.estimate.assume(rate)
  }

  /**
   * Takes the instrument to ask now; null when none is due. It is answered or failed later, and not chosen again before.
   * `deadlineMs` is when its fills are expected to be more than a response shows.
   */
  choose(nowMs: number): { readonly target: Target; readonly deadlineMs: number } | null {
    const chosen = this.#best(nowMs, this.#choices + 1)
    if (chosen === null) return null
    this.#choices++
    chosen.isAsked = true
    return { target: chosen.target, deadlineMs: this.#deadlineMs(chosen, nowMs) }
  }

  /** When the next instrument is due, and by when it should be asked; infinite when all are being asked. */
  upcoming(nowMs: number): { readonly dueMs: number; readonly deadlineMs: number } {
    const best = this.#best(nowMs, this.#choices + 1)
    if (best !== null) return { dueMs: nowMs, deadlineMs: this.#deadlineMs(best, nowMs) }
    let dueMs = Infinity
    for (const entry of this.#list) if (!entry.isAsked) dueMs = Math.min(dueMs, this.#dueMs(entry, nowMs))
    return { dueMs, deadlineMs: dueMs }
  }

  /**
   * Takes a response; returns how many in a row have brought nothing new.
   *
   * @param atMs when the response came
   * @param serviceTime when the service gave it, by its own clock
   */
  responded(target: Target, newestFirst: readonly SeenFill[], serviceTime: TimeMs, atMs: number): number {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return 0
    const isFirst = entry.respondedMs === null
    const fresh = entry.estimate.responded(newestFirst, serviceTime)
    if (!isFirst && fresh >= fillsPerPage) this.#late++
    this.#offsetMs = serviceTime - atMs
    entry.respondedMs = atMs
    entry.empty = fresh > 0 ? 0 : entry.empty + 1
    entry.failures = 0
    entry.isAsked = false
    return entry.empty
  }

  failed(target: Target, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    entry.failures++
    entry.failedMs = nowMs
    entry.isAsked = false
  }

  /**
   * A response came, and what it showed could not be kept: the instrument is asked again as soon as one never answered would
   * be, however little is traded there. Until then the next response is all that can still show those fills.
   */
  lost(target: Target, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    this.failed(target, nowMs)
    entry.respondedMs = null
    entry.sinceMs = nowMs
  }

  /**
   * The response that the service gave at `serviceTime` was kept at first, and is not any more. Where it is the newest, it is as
   * good as lost; a later one, or one under way, shows the same fills, and more.
   */
  dropped(target: Target, serviceTime: TimeMs, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined || entry.isAsked || entry.estimate.respondedAt !== serviceTime) return
    this.lost(target, nowMs)
  }

  /** Takes what a ticker tells, and returns whether that is that nothing was traded since the last response. */
  traded(target: Target, sign: TradeSign): boolean {
    return this.#entries.get(this.#keyOf(target))?.estimate.traded(sign) ?? false
  }

  /** The same of all instruments: whether the ticker of one of them tells that. */
  allTraded(signOf: (target: Target) => TradeSign | null): boolean {
    let isOneIdle = false
    for (const { target, estimate } of this.#list) {
      const sign = signOf(target)
      if (sign !== null && estimate.traded(sign)) isOneIdle = true
    }
    return isOneIdle
  }

  /** How many fills of an instrument are expected that no response has shown; 0 for one that is not scheduled. */
  unseen(key: string, nowMs: number): number {
    return this.#entries.get(key)?.estimate.unseen(nowMs + (this.#offsetMs ?? 0)) ?? 0
  }

  /** Fills a millisecond of these instruments together: as at the moment, or as usual where that is more. */
  flow(isMeant: (target: Target) => boolean): number {
    let [moment, usual] = [0, 0]
    for (const { target, estimate } of this.#list) {
      if (!isMeant(target)) continue
      moment += estimate.rate
      usual += estimate.usualRate
    }
    return Math.max(moment, usual)
  }

  load(): FillLoad {
    let perMs = 0
    for (const { estimate } of this.#list) perMs += estimate.usualRate
    return { fillsPerSecond: perMs * 1000, late: this.#late }
  }

  #best(nowMs: number, turn: number): Entry<Target> | null {
    let first: Entry<Target> | null = null
    let firstRank = -Infinity
    let overdue: Entry<Target> | null = null
    let maxOverdueMs = 0
    let busiest: Entry<Target> | null = null
    let most = dueFills
    for (const entry of this.#list) {
      if (entry.isAsked || !this.#isAllowed(entry, nowMs)) continue
      if (entry.respondedMs === null) {
        // Those that keep failing come after those that were not tried yet.
        const rank = entry.estimate.firstRank - (entry.failures > 0 ? 1e18 : 0)
        if (rank > firstRank) [first, firstRank] = [entry, rank]
        continue
      }
      const overdueMs = nowMs - entry.respondedMs - longestWaitMs(entry.empty, this.#options.maxPollMs)
      if (overdueMs >= maxOverdueMs) [overdue, maxOverdueMs] = [entry, overdueMs]
      const { estimate } = entry
      const unseen = estimate.unseen(nowMs + (this.#offsetMs ?? 0))
      // Most are not the busiest however uneven they are, and powers cost more than all else here.
      if (unseen * maxUnevennessFactor < most) continue
      const atStake = unseen * estimate.unevenness ** unevennessPower
      if (atStake >= most) [busiest, most] = [entry, atStake]
    }
    if (overdue !== null && (busiest === null || turn % overdueEvery === 0)) return overdue
    if (first !== null && (busiest === null || turn % firstEvery === 0)) return first
    return busiest ?? overdue ?? first
  }

  #isAllowed({ respondedMs, failures, failedMs }: Entry<Target>, nowMs: number): boolean {
    const { minPollMs } = this.#options
    if (failures > 0) return nowMs >= failedMs + backoffMs(failures, { minMs: minPollMs, maxMs: maxBackoffMs })
    return respondedMs === null || nowMs >= respondedMs + minPollMs
  }

  #dueMs(entry: Entry<Target>, nowMs: number): number {
    const { minPollMs } = this.#options
    if (entry.failures > 0) return entry.failedMs + backoffMs(entry.failures, { minMs: minPollMs, maxMs: maxBackoffMs })
    if (entry.respondedMs === null) return nowMs
    const latestMs = entry.respondedMs + longestWaitMs(entry.empty, this.#options.maxPollMs)
    return Math.min(latestMs, Math.max(entry.respondedMs + minPollMs, this.#reachesMs(entry, dueFills, nowMs)))
  }

  #deadlineMs(entry: Entry<Target>, nowMs: number): number {
    if (entry.respondedMs === null) return entry.sinceMs + this.#options.maxPollMs
    return Math.min(this.#reachesMs(entry, fillsPerPage, nowMs), nowMs + this.#options.maxPollMs)
  }

  /** When so many unseen fills are to be expected. */
  #reachesMs({ estimate }: Entry<Target>, count: number, nowMs: number): number {
    const left = count - estimate.unseen(nowMs + (this.#offsetMs ?? 0))
    if (left <= 0) return nowMs
    const { rate } = estimate
    return rate > 0 ? nowMs + left / rate : Infinity
  }
}
