import { backoffMs } from '../../runtime/clock.js'
import type { ServiceMs } from '../../market/values.js'
import { fillsPerPage, type TradeSign } from '../../market/rows.js'
import { FillEstimate, type SeenFill } from './fillEstimate.js'
import { type FailureRun, failingWaitMs, GroupOutcomes, isFailingAlone } from './failures.js'
import { longestWaitMs } from './fillShare.js'
import { GroupNews } from './groupNews.js'
import { graceMs } from './pace.js'

interface FillScheduleOptions<Target> {
  /** Group of instruments that one failure of the service may affect together. */
  readonly groupOf: (target: Target) => string
  /** Shortest time between two requests for an instrument. */
  readonly minPollMs: number
  /** Longest time between two requests for an instrument whose responses bring something new. */
  readonly maxPollMs: number
}

interface Entry<Target> {
  readonly target: Target
  readonly estimate: FillEstimate
  /** When the instrument was added; if a response was lost, when the last one before it was kept. */
  sinceMs: number
  /** When the last response came; null before the first, and when the last was lost. */
  respondedMs: number | null
  /** Responses in a row that brought nothing new. */
  empty: number
  /** When the last response came that had something new since the one before. */
  broughtMs: number
  /** True when the last response held no fills at all. */
  isQuiet: boolean
  failing: FailureRun
  /** When the last request failed; before the first failure, when the instrument was added. */
  failedMs: number
  isRequested: boolean
}
/** An instrument with fewer unseen fills than this is not worth a request yet. */
const dueFills = 3
const maxBackoffMs = 30_000
/** Every fourth choice goes to the instrument that is overdue for longest, every second to one without a response. */
const overdueEvery = 4
const firstEvery = 2
/** Every fiftieth choice goes to an instrument that fails alone, unless no other is due. */
const failingEvery = 50
/** An instrument that never had a response counts as failing alone if others had this share of a response meanwhile. */
const missedAtFirst = 0.25

/**
 * Decides at each request that may be sent which instrument's fills are requested.
 *
 * The schedule maximises the number of captured fills. A response shows the newest 100, so it chooses the instrument
 * with the largest number of unseen fills. On recorded tapes, a schedule with exact numbers captured 99 % of what
 * foresight would have. With numbers a second old it captured 91 to 95 %. The choice therefore uses the number
 * that is expected at the moment of the request. Nothing is decided ahead: a ticker that arrives while a request waits
 * changes the choice.
 *
 * No instrument starves. Instruments without a response get every second choice, the busiest first. For n such
 * instruments this takes 2 n requests. An instrument that has waited for its longest time is overdue. Overdue
 * instruments get every fourth choice, the longest overdue first. Of n instruments, one that trades waits at most for
 * maxPollMs and the time of 4 n requests. The longest time doubles with each response that brings nothing, up to an
 * hour, whatever the ticker claims. The first new fill resets it. While all instruments of a group become silent at
 * once, their rates and longest times stay as they are. Instruments that fail while others have responses
 * share every fiftieth choice, and each of them waits longer after each failure. Times are of the monotonic clock.
 */
export class FillSchedule<Target> {
  readonly #keyOf: (target: Target) => string
  readonly #options: FillScheduleOptions<Target>
  readonly #entries = new Map<string, Entry<Target>>()
  /** The values of `#entries`, for the loop over all of them at each choice. */
  #list: Entry<Target>[] = []
  #choices = 0
  readonly #outcomes = new GroupOutcomes()
  readonly #news = new GroupNews<Entry<Target>>()

  constructor(keyOf: (target: Target) => string, options: FillScheduleOptions<Target>) {
    this.#keyOf = keyOf
    this.#options = options
  }

  /** Replaces the instruments. New ones are due at once; the state of the others is kept. */
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
        broughtMs: -Infinity,
        isQuiet: false,
        failing: this.#outcomes.begin(this.#options.groupOf(target)),
        failedMs: nowMs,
        isRequested: false,
      })
    }
    this.#list = [...this.#entries.values()]
  }

  /** Takes the rate that an earlier run recorded, in fills per millisecond. It holds until the first response. */
  assume(target: Target, rate: number): void {
    this.#entries.get(this.#keyOf(target))?.estimate.assume(rate)
  }

  /**
   * Returns the instrument to request now; null when none is due. It is not chosen again until its request has ended.
   * `deadlineMs` is when more fills are expected than a response shows.
   */
  choose(nowMs: number): { readonly target: Target; readonly deadlineMs: number } | null {
    const chosen = this.#best(nowMs, this.#choices + 1)
    if (chosen === null) return null
    this.#choices++
    chosen.isRequested = true
    return { target: chosen.target, deadlineMs: this.#deadlineMs(chosen, nowMs) }
  }

  /** When the next instrument is due, and its deadline; infinite while requests for all are under way. */
  upcoming(nowMs: number): { readonly dueMs: number; readonly deadlineMs: number } {
    const best = this.#best(nowMs, this.#choices + 1)
    if (best !== null) return { dueMs: nowMs, deadlineMs: this.#deadlineMs(best, nowMs) }
    let dueMs = Infinity
    for (const entry of this.#list) if (!entry.isRequested) dueMs = Math.min(dueMs, this.#dueMs(entry, nowMs))
    return { dueMs, deadlineMs: dueMs }
  }

  /**
   * Takes a response.
   *
   * @param atMs when the response came
   * @param serviceTime when the service gave it, by its own clock
   */
  responded(target: Target, newestFirst: readonly SeenFill[], serviceTime: ServiceMs, atMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    const group = this.#options.groupOf(target)
    const brought = entry.estimate.countFresh(newestFirst) > 0
    const wasLively = atMs - entry.broughtMs <= this.#options.maxPollMs
    const tells = this.#news.tells(group, entry, { brought, wasLively }, atMs)
    entry.estimate.responded(newestFirst, serviceTime, atMs, tells)
    // A first page has fills of any age.
    if (brought && entry.respondedMs !== null) entry.broughtMs = atMs
    entry.respondedMs = atMs
    if (brought) entry.empty = 0
    else if (tells) entry.empty += 1
    entry.isQuiet = newestFirst.length === 0
    entry.failing = this.#outcomes.responded(group)
    entry.isRequested = false
  }

  failed(target: Target, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    entry.failing = this.#outcomes.failed(entry.failing, this.#options.groupOf(target))
    entry.failedMs = nowMs
    entry.isRequested = false
  }

  /**
   * Takes a response that could not be kept. The instrument is then requested as soon as one that never had a response.
   * Only its next response can still show the lost fills.
   */
  lost(target: Target, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    // The service gave the response, so that its loss tells nothing about the instrument.
    entry.failing = { ...entry.failing, failures: entry.failing.failures + 1 }
    entry.failedMs = nowMs
    entry.isRequested = false
    // Its wait counts from the last response that was kept, even if several are lost.
    entry.sinceMs = entry.respondedMs ?? entry.sinceMs
    entry.respondedMs = null
  }

  /**
   * Takes a response that was kept at first and dropped from the disk later. It counts as lost if it is the newest
   * response and no request is under way. Otherwise a newer response takes its place.
   */
  dropped(target: Target, serviceTime: ServiceMs, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined || entry.isRequested || entry.estimate.respondedAt !== serviceTime) return
    this.lost(target, nowMs)
  }

  /**
   * Takes the tickers of all instruments. `isIdle` is true if the ticker of at least one instrument proves that nothing
   * was traded after its last response.
   */
  takeTickers(signOf: (target: Target) => TradeSign | null, nowMs: number): { readonly isIdle: boolean } {
    let isIdle = false
    for (const { target, estimate } of this.#list) {
      const sign = signOf(target)
      if (sign !== null && estimate.takeTicker(sign, nowMs).isIdle) isIdle = true
    }
    return { isIdle }
  }

  /**
   * Counts the instruments without fills, and those that trade and are late. An instrument is late if it has waited
   * longer than allowed, or if a response that came now could not show all its unseen fills. One that fails alone is
   * not late.
   */
  counts(nowMs: number): { readonly lateTargets: number; readonly quietTargets: number } {
    let [lateTargets, quietTargets] = [0, 0]
    for (const entry of this.#list) {
      const waitedMs = nowMs - (entry.respondedMs ?? entry.sinceMs) - graceMs
      if (entry.isQuiet) quietTargets++
      else if (isAlone(entry)) continue
      else if (waitedMs > longestWaitMs(entry.empty, this.#options.maxPollMs)) lateTargets++
      else if (waitedMs > 0 && entry.estimate.unseen(nowMs) >= fillsPerPage) lateTargets++
    }
    return { lateTargets, quietTargets }
  }

  /** Fills per millisecond of these instruments together: the current rate, or the usual one where that is higher. */
  flow(matches: (target: Target) => boolean): number {
    let [moment, usual] = [0, 0]
    for (const { target, estimate } of this.#list) {
      if (!matches(target)) continue
      moment += estimate.rate
      usual += estimate.usualRate
    }
    return Math.max(moment, usual)
  }

  /** Sum of the usual rates of all instruments. */
  fillsPerSecond(): number {
    let perMs = 0
    for (const { estimate } of this.#list) perMs += estimate.usualRate
    return perMs * 1000
  }

  #best(nowMs: number, turn: number): Entry<Target> | null {
    let first: Entry<Target> | null = null
    let firstRank = -Infinity
    let overdue: Entry<Target> | null = null
    let maxOverdueMs = 0
    let busiest: Entry<Target> | null = null
    let most = dueFills
    let failing: Entry<Target> | null = null
    let failingFromMs = Infinity
    for (const entry of this.#list) {
      if (entry.isRequested) continue
      const allowedMs = this.#allowedMs(entry)
      if (nowMs < allowedMs) continue
      if (isAlone(entry)) {
        if (allowedMs < failingFromMs) [failing, failingFromMs] = [entry, allowedMs]
        continue
      }
      if (entry.respondedMs === null) {
        // Instruments whose requests fail come after those that were not tried yet.
        const rank = entry.estimate.firstRank - (entry.failing.failures > 0 ? 1e18 : 0)
        if (rank > firstRank) [first, firstRank] = [entry, rank]
        continue
      }
      const overdueMs = nowMs - entry.respondedMs - longestWaitMs(entry.empty, this.#options.maxPollMs)
      if (overdueMs >= maxOverdueMs) [overdue, maxOverdueMs] = [entry, overdueMs]
      const unseen = entry.estimate.unseen(nowMs)
      if (unseen >= most) [busiest, most] = [entry, unseen]
    }
    if (failing !== null && turn % failingEvery === 0) return failing
    if (overdue !== null && (busiest === null || turn % overdueEvery === 0)) return overdue
    if (first !== null && (busiest === null || turn % firstEvery === 0)) return first
    return busiest ?? overdue ?? first ?? failing
  }

  /** When the instrument may be requested at the earliest. */
  #allowedMs(entry: Entry<Target>): number {
    const { minPollMs, maxPollMs } = this.#options
    const { respondedMs, failing, failedMs } = entry
    if (isAlone(entry)) return failedMs + failingWaitMs(failing, maxPollMs)
    if (failing.failures > 0) return failedMs + backoffMs(failing.failures, { minMs: minPollMs, maxMs: maxBackoffMs })
    return respondedMs === null ? -Infinity : respondedMs + minPollMs
  }

  #dueMs(entry: Entry<Target>, nowMs: number): number {
    const allowedMs = this.#allowedMs(entry)
    if (entry.failing.failures > 0 || entry.respondedMs === null) return Math.max(allowedMs, nowMs)
    const latestMs = entry.respondedMs + longestWaitMs(entry.empty, this.#options.maxPollMs)
    return Math.min(latestMs, Math.max(allowedMs, this.#reachesMs(entry, dueFills, nowMs)))
  }

  #deadlineMs(entry: Entry<Target>, nowMs: number): number {
    if (isAlone(entry)) return nowMs + this.#options.maxPollMs
    if (entry.respondedMs === null) return entry.failedMs + this.#options.maxPollMs
    return Math.min(this.#reachesMs(entry, fillsPerPage, nowMs), nowMs + this.#options.maxPollMs)
  }

  /** When the instrument is expected to have `count` unseen fills. */
  #reachesMs(entry: Entry<Target>, count: number, nowMs: number): number {
    const left = count - entry.estimate.unseen(nowMs)
    if (left <= 0) return nowMs
    const { rate } = entry.estimate
    return rate > 0 ? nowMs + left / rate : Infinity
  }
}

/** Returns true if an instrument fails while others have responses. One that had a response itself is believed longer. */
function isAlone({ failing, estimate }: Entry<unknown>): boolean {
  return estimate.respondedAt > -Infinity ? isFailingAlone(failing) : failing.missed >= missedAtFirst
}
