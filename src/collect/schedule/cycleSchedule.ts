import { hourMs } from '../../market/values.js'
import type { Moment } from '../../runtime/clock.js'
import { DueHeap } from './dueHeap.js'
import { failingWaitMs, type FailureRun, GroupOutcomes } from './failures.js'
import { GroupNews } from './groupNews.js'
import {
  afterResponse,
  fullPace,
  graceMs,
  keepSteady,
  nextPlace,
  type Pace,
  waitMs,
  waitWhenClaimedMs,
} from './pace.js'

interface CycleOptions<Target> {
  readonly keyOf: (target: Target) => string
  /** Group of targets that one failure of the service may affect together, such as a category. */
  readonly groupOf: (target: Target) => string
  /** Position of a target in the cycle, in [0, 1). */
  readonly phaseOf: (target: Target) => number
  /** Time between two requests for a target whose responses bring something. */
  readonly everyMs: number
  /** True if a response without news proves that nothing happened. False if the service may have failed instead. */
  readonly isSilenceProven: boolean
}

/** Number of targets in each state. */
interface CycleCounts {
  /** Targets that are requested, rarely or in every cycle. */
  readonly covered: number
  /** Covered targets that are requested rarely, because their responses brought nothing for long. */
  readonly quiet: number
  /** Targets for which there is no place. */
  readonly leftOut: number
  /** Covered targets, except quiet ones, that are overdue by more than a cycle and 30 s. */
  readonly late: number
  /**
   * True when there is nothing to record. If `isSilenceProven`, the last response of every covered target was on time
   * and without news. Otherwise every covered target is quiet, and none has ever changed.
   */
  readonly isIdle: boolean
}

interface Entry<Target> {
  readonly target: Target
  rank: number
  pace: Pace
  /** True when the target has a place in the cycle, or is quiet and requested now and then. */
  isCovered: boolean
  isRequested: boolean
  wasClaimed: boolean
  /** When the last response came, on the monotonic clock; null before the first. */
  respondedMs: number | null
  dueMs: number
  failing: FailureRun
  /** Content of the newest response with content; null before the first. */
  content: string | null
  /** True once two responses had different content. */
  hasChanged: boolean
  /** Sign of the ticker at the time of the last response. */
  sign: string | null
}

/** A target is quiet after this many responses in a row that brought nothing. It then gives its place to others. */
const quietAfter = 5
/** Longest time between two requests for a quiet target. */
const maxCycleWaitMs = hourMs
/** Requests for quiet targets in a cycle, as a share of the places, but at least one. They take no places. */
const quietShare = 0.05
/** Shortest time between two arrangements of one ranking: each looks at all targets, and each response may want one. */
const arrangeEveryMs = 1000

/**
 * Decides when each target of a ranking is requested. Time is divided into cycles of equal length, and each cycle has a
 * limited number of places. A target with a place is requested once in each cycle.
 *
 * The places go to the targets of the highest rank whose responses bring something. A target whose responses bring
 * nothing is requested less and less often, whatever its ticker claims. After five of them it is quiet, and its place
 * goes to the next target of the ranking. Quiet targets together get a twentieth as many requests as there are places.
 * The first response that brings something ends the quiet. While all targets of a group become silent at once, each
 * keeps its pace.
 *
 * Times are of the monotonic clock. Places are of the wall clock, so that they stay the same after a restart.
 */
export class CycleSchedule<Target> {
  readonly #options: CycleOptions<Target>
  readonly #entries = new Map<string, Entry<Target>>()
  #ranked: Entry<Target>[] = []
  #places = 0
  /** Number of requests for quiet targets that may be made now; grows with time. */
  #quietTokens = 0
  #refilledMs = 0
  #isArranged = false
  #arrangedMs = -Infinity
  /** Covered targets without a request under way: those that have a place, and quiet ones. */
  readonly #active = new DueHeap<Entry<Target>>((entry) => isWaiting(entry) && !isQuiet(entry))
  readonly #quiet = new DueHeap<Entry<Target>>((entry) => isWaiting(entry) && isQuiet(entry))
  readonly #outcomes = new GroupOutcomes()
  readonly #news = new GroupNews<Entry<Target>>()

  constructor(options: CycleOptions<Target>) {
    this.#options = options
  }

  /**
   * Replaces the targets, highest rank first. The state of targets that stay is kept.
   *
   * @param places number of places in the cycle
   */
  retarget(ranked: readonly Target[], places: number, nowMs: number): void {
    const wanted = new Set(ranked.map(this.#options.keyOf))
    for (const key of this.#entries.keys()) if (!wanted.has(key)) this.#entries.delete(key)
    this.#ranked = ranked.map((target, rank) => {
      const key = this.#options.keyOf(target)
      const known = this.#entries.get(key)
      const entry: Entry<Target> = known ?? {
        target,
        rank,
        pace: fullPace,
        isCovered: false,
        isRequested: false,
        wasClaimed: false,
        respondedMs: null,
        dueMs: nowMs,
        failing: this.#outcomes.begin(this.#options.groupOf(target)),
        content: null,
        hasChanged: false,
        sign: null,
      }
      entry.rank = rank
      this.#entries.set(key, entry)
      return entry
    })
    this.#places = places
    this.#isArranged = false
    this.#arrangedMs = -Infinity
  }

  /** Returns the targets that are due. Each is due again only after a call of `responded` or `failed` for it. */
  take(nowMs: number): Target[] {
    this.#arrange(nowMs)
    this.#refillQuietTokens(nowMs)
    const due: Entry<Target>[] = []
    for (let entry = this.#first(); entry !== null && entry.dueMs <= nowMs; entry = this.#first()) {
      if (isQuiet(entry)) this.#quietTokens--
      entry.isRequested = true
      due.push(entry)
    }
    return due.sort((a, b) => a.rank - b.rank).map(({ target }) => target)
  }

  /**
   * Takes a response and sets the time of the next request. Returns the number of places that this request missed.
   *
   * @param content a text that is equal for equal responses; null for a response without content
   */
  responded(target: Target, content: string | null, sign: string | null, now: Moment): number {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined) return 0
    const { everyMs, groupOf, isSilenceProven } = this.#options
    const brought = content !== null && content !== entry.content
    const before = entry.pace
    const wasLively = entry.hasChanged && before.fruitless < quietAfter
    const tells = isSilenceProven || this.#news.tells(groupOf(target), entry, { brought, wasLively }, now.ms)
    if (tells) entry.pace = afterResponse(before, { brought, claimed: entry.wasClaimed })
    if (brought && entry.content !== null) entry.hasChanged = true
    // A target that has never changed becomes quiet after its first response without news, not after the fifth.
    if (!brought && !entry.hasChanged)
      entry.pace = { fruitless: Math.max(quietAfter, entry.pace.fruitless), misled: entry.pace.misled }
    if (content !== null) entry.content = content
    entry.sign = sign
    entry.respondedMs = now.ms
    entry.failing = this.#outcomes.responded(groupOf(target))
    entry.isRequested = false
    entry.wasClaimed = false
    const dueBefore = entry.dueMs
    entry.dueMs = this.#nextPlaceMs(entry, waitMs(entry.pace, this.#limits), now)
    this.#isArranged &&= before.fruitless === entry.pace.fruitless
    this.#wait(entry)
    return before.fruitless > 0 ? 0 : Math.max(0, Math.round((entry.dueMs - dueBefore) / everyMs) - 1)
  }

  /** Takes a failure: no response came, or its rows could not be kept. */
  failed(target: Target, now: Moment): void {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined) return
    const { everyMs } = this.#options
    entry.isRequested = false
    entry.failing = this.#outcomes.failed(entry.failing, this.#options.groupOf(target))
    const wait = failingWaitMs(entry.failing, everyMs)
    const placeMs = this.#nextPlaceMs(entry, Math.max(everyMs, wait), now)
    entry.dueMs = wait > everyMs ? placeMs : Math.min(placeMs, now.ms + wait)
    this.#wait(entry)
  }

  /**
   * Takes the sign of the newest ticker. If the sign has changed since the last response, the ticker claims that there
   * is news, and the target is requested sooner.
   */
  claim(target: Target, sign: string, now: Moment): void {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined || entry.isRequested || entry.wasClaimed || entry.respondedMs === null) return
    if (entry.pace.fruitless === 0 || entry.failing.failures > 0 || entry.sign === sign) return
    const sinceMs = now.ms - entry.respondedMs
    const claimedMs = waitWhenClaimedMs(entry.pace, this.#limits)
    if (claimedMs >= waitMs(entry.pace, this.#limits)) return
    entry.wasClaimed = true
    entry.dueMs = Math.min(entry.dueMs, this.#nextPlaceMs(entry, Math.max(0, claimedMs - sinceMs), now))
    this.#wait(entry)
  }

  /** Returns true if the target has had a response. */
  hasResponded(target: Target): boolean {
    return (this.#entries.get(this.#options.keyOf(target))?.respondedMs ?? null) !== null
  }

  targets(): Target[] {
    return this.#ranked.map(({ target }) => target)
  }

  /** When the next target is due; infinite while each has a request under way, or is quiet and no token is left. */
  nextMs(nowMs: number): number {
    this.#arrange(nowMs)
    // Where all targets are quiet, the growing number of tokens alone makes one due.
    this.#refillQuietTokens(nowMs)
    return Math.max(nowMs, this.#first()?.dueMs ?? Infinity)
  }

  counts(nowMs: number): CycleCounts {
    const lateAfterMs = this.#options.everyMs + graceMs
    let [covered, quiet, late] = [0, 0, 0]
    for (const entry of this.#ranked) {
      if (!entry.isCovered) continue
      covered++
      if (isQuiet(entry)) quiet++
      else if (nowMs - entry.dueMs > lateAfterMs) late++
    }
    const isSilent = (entry: Entry<Target>) =>
      this.#options.isSilenceProven
        ? entry.pace.fruitless > 0 && entry.failing.failures === 0 && nowMs <= entry.dueMs + patienceMs(entry)
        : isQuiet(entry) && !entry.hasChanged
    const isIdle = covered > 0 && this.#ranked.every((entry) => !entry.isCovered || isSilent(entry))
    return { covered, quiet, leftOut: this.#ranked.length - covered, late, isIdle }
  }

  get #limits() {
    return { everyMs: this.#options.everyMs, maxMs: maxCycleWaitMs }
  }

  /** Gives the places to the first targets of the ranking. A target requested every second cycle takes half a place. */
  #arrange(nowMs: number): void {
    if (this.#isArranged || nowMs < this.#arrangedMs + arrangeEveryMs) return
    this.#isArranged = true
    this.#arrangedMs = nowMs
    this.#active.clear()
    this.#quiet.clear()
    const active = this.#ranked.filter((entry) => !isQuiet(entry))
    const costOf = ({ pace }: Entry<Target>) => this.#options.everyMs / waitMs(pace, this.#limits)
    const chosen = new Set(keepSteady(active, costOf, this.#places, ({ isCovered }) => isCovered))
    for (const entry of this.#ranked) {
      // A quiet target stays covered, because only a response can tell that it has changed.
      const isCovered = isQuiet(entry) || chosen.has(entry)
      if (isCovered && !entry.isCovered) entry.dueMs = Math.max(entry.dueMs, nowMs)
      entry.isCovered = isCovered
      this.#wait(entry)
    }
  }

  #wait(entry: Entry<Target>): void {
    if (isWaiting(entry)) (isQuiet(entry) ? this.#quiet : this.#active).add(entry)
  }

  /** Returns the target that is due first; null while each has a request under way, or is quiet and no token is left. */
  #first(): Entry<Target> | null {
    const [active, quiet] = [this.#active.first(), this.#quietTokens >= 1 ? this.#quiet.first() : null]
    return active === null || (quiet !== null && quiet.dueMs < active.dueMs) ? quiet : active
  }

  #refillQuietTokens(nowMs: number): void {
    const most = Math.max(1, this.#places * quietShare)
    const added = (most * (nowMs - this.#refilledMs)) / this.#options.everyMs
    this.#quietTokens = Number.isFinite(most) ? Math.min(most, this.#quietTokens + added) : Infinity
    this.#refilledMs = nowMs
  }

  /** Returns the time of a target's first place in the cycle after about `wait` ms. */
  #nextPlaceMs({ target }: Entry<Target>, wait: number, now: Moment): number {
    const { everyMs, phaseOf } = this.#options
    const place = nextPlace(now.wall + Math.max(0, wait - everyMs), everyMs, phaseOf(target))
    return now.ms + (place - now.wall)
  }
}

/** How long a request may be overdue. Requests for quiet targets are few, so a quiet target may wait for an hour. */
function patienceMs(entry: Entry<unknown>): number {
  return isQuiet(entry) ? maxCycleWaitMs : graceMs
}

function isWaiting({ isCovered, isRequested }: Entry<unknown>): boolean {
  return isCovered && !isRequested
}

function isQuiet({ pace }: Entry<unknown>): boolean {
  return pace.fruitless >= quietAfter
}
