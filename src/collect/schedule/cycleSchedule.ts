import { hourMs } from '../../market/values.js'
import { backoffMs } from '../../runtime/backoff.js'
import type { Moment } from '../../runtime/clock.js'
import { keepSteady } from './fit.js'
import { nextPlace } from './phase.js'
import { afterResponse, fullPace, type Pace, retrySoon, waitMs, waitWhenClaimedMs } from './pace.js'

export interface CycleOptions<Target> {
  readonly keyOf: (target: Target) => string
  /** Those that one failure of the service may befall together: of the same group, others tell whether a target fails alone. */
  readonly groupOf: (target: Target) => string
  /** Each target's own place in the cycle, in [0, 1). */
  readonly phaseOf: (target: Target) => number
  /** Time between two requests for a target whose responses bring something. */
  readonly everyMs: number
}

/** What becomes of the targets, as counts. */
export interface CycleCounts {
  /** Those that are asked for, rarely or at full rhythm. */
  readonly covered: number
  /** Of those: asked for rarely, because their responses brought nothing for long. */
  readonly quiet: number
  /** Those for which there is no place. */
  readonly leftOut: number
  /** Of those that are asked for at their rhythm: how many have waited for longer than they should. */
  readonly late: number
  /** Whether there is nothing to be had: each was asked, and none was ever seen to say something, and then something else. */
  readonly isIdle: boolean
}

/** How requests have ended. */
interface Tally {
  readonly responses: number
  readonly failures: number
}

const noTally: Tally = { responses: 0, failures: 0 }

interface Entry<Target> {
  readonly target: Target
  rank: number
  pace: Pace
  /** Has a place in the cycle, or is looked at now and then. */
  isIn: boolean
  isAsked: boolean
  wasClaimed: boolean
  /** On the monotonic clock; null before the first response. */
  respondedMs: number | null
  dueMs: number
  /** In a row, since the last response. */
  failures: number
  /** How many responses it would have had since its last one if it had fared like the others: what speaks for its own failure. */
  missed: number
  /** How the requests for its group had ended when its own last did. */
  tallied: Tally
  /** What the last response said; null when it said nothing. */
  content: string | null
  /** How many different ones there were. */
  contents: number
  /** What the ticker said when the last response came. */
  sign: string | null
}

/** What has brought nothing for so many responses gives its place to others and is looked at beside them. */
const quietAfter = 5
/** Longest time between two looks at something that brings nothing. */
const maxCycleWaitMs = hourMs
/** Looks at what brings nothing come on top of the places, and are so many of their number at most. */
const lookShare = 0.05
const graceMs = 30_000
/** What fails while the others are answered goes unasked for so many cycles at most, or an hour if that is shorter. */
const maxFailingCycles = 32
/** With so many responses missed it is not by chance any more: that happens to one in twenty. */
const missedToBelieve = 3

/**
 * Decides when each of a ranked list of targets is asked for, with a place for some of them in a cycle of fixed length.
 *
 * The places go to the first of the ranking whose responses bring something. One that brings nothing, whatever its ticker
 * claims, is asked less and less, gives its place to the next, and is then only looked at: all such looks together stay below
 * a small share of the places, however many there are and whatever is wrong with them. The first response that brings
 * something puts it back. Times are of the monotonic clock, places of the wall clock, so that a restart keeps them.
 */
export class CycleSchedule<Target> {
  readonly #options: CycleOptions<Target>
  readonly #entries = new Map<string, Entry<Target>>()
  #ranked: Entry<Target>[] = []
  #slots = 0
  /** How many looks may be taken; grows with time. */
  #looks = 0
  #looksAtMs = 0
  #isArranged = false
  readonly #tallies = new Map<string, Tally>()

  constructor(options: CycleOptions<Target>) {
    this.#options = options
  }

  /** Replaces the targets, the most wanted first. What is known of those that stay is kept. @param slots places in the cycle */
  retarget(ranked: readonly Target[], slots: number, nowMs: number): void {
    const wanted = new Set(ranked.map(this.#options.keyOf))
    for (const key of this.#entries.keys()) if (!wanted.has(key)) this.#entries.delete(key)
    this.#ranked = ranked.map((target, rank) => {
      const key = this.#options.keyOf(target)
      const known = this.#entries.get(key)
      const entry: Entry<Target> = known ?? {
        target,
        rank,
        pace: fullPace,
        isIn: false,
        isAsked: false,
        wasClaimed: false,
        respondedMs: null,
        dueMs: nowMs,
        failures: 0,
        missed: 0,
        tallied: this.#tallyOf(target),
        content: null,
        contents: 0,
        sign: null,
      }
      entry.rank = rank
      this.#entries.set(key, entry)
      return entry
    })
    this.#slots = slots
    this.#isArranged = false
  }

  /** Takes what is due. Each is answered or failed later, and not due again before. */
  take(nowMs: number): Target[] {
    this.#arrange(nowMs)
    this.#earnLooks(nowMs)
    const due: Target[] = []
    for (const entry of this.#ranked) {
      if (!entry.isIn || entry.isAsked || entry.dueMs > nowMs) continue
      if (isQuiet(entry)) {
        if (this.#looks < 1) continue
        this.#looks--
      }
      entry.isAsked = true
      due.push(entry.target)
    }
    return due
  }

  /** @param content what the response said, in any spelling; null when it said nothing. @returns how many places were missed */
  responded(target: Target, content: string | null, sign: string | null, now: Moment): number {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined) return 0
    const { everyMs } = this.#options
    const brought = content !== null && content !== entry.content
    const before = entry.pace
    entry.pace = afterResponse(before, { brought, claimed: entry.wasClaimed })
    if (brought) entry.contents++
    // Nothing speaks for one that was never seen to change: it need not be tried five times.
    else if (entry.contents < 2)
      entry.pace = { fruitless: Math.max(quietAfter, entry.pace.fruitless), misled: entry.pace.misled }
    if (content !== null) entry.content = content
    entry.sign = sign
    entry.respondedMs = now.ms
    entry.failures = 0
    entry.missed = 0
    entry.tallied = this.#count(target, 'responses')
    entry.isAsked = false
    entry.wasClaimed = false
    const dueBefore = entry.dueMs
    entry.dueMs = this.#nextPlaceMs(entry, waitMs(entry.pace, this.#limits), now)
    this.#isArranged &&= before.fruitless === entry.pace.fruitless
    return before.fruitless > 0 ? 0 : Math.max(0, Math.round((entry.dueMs - dueBefore) / everyMs) - 1)
  }

  /**
   * No response, or none that was kept. Whose failure it is shows in how the others of its group fare, not in the error: a new code
   * may be said to all, and a timeout may befall one. As long as hardly anybody is answered, it is asked again within a minute, or at its
   * next place where that is sooner: else an outage would be followed by as much time without a response, and a cycle of hours
   * would be lost with one request. From the third on, each response that it would have had by now if it had fared like the others
   * doubles the wait: where a share s of requests is answered, n failures in a row are n s missed responses, and come about by
   * chance with a probability of (1 - s) ^ n, which is less than e ^ -(n s). Without others nothing is missed.
   */
  failed(target: Target, now: Moment): void {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined) return
    const { everyMs } = this.#options
    entry.isAsked = false
    entry.failures++
    entry.missed += shareAnswered(entry.tallied, this.#tallyOf(target))
    entry.tallied = this.#count(target, 'failures')
    const longestMs = Math.max(everyMs, Math.min(everyMs * maxFailingCycles, maxCycleWaitMs))
    const soonMs = Math.min(everyMs, backoffMs(entry.failures, retrySoon))
    const wait = Math.min(longestMs, soonMs * 2 ** Math.max(0, entry.missed - missedToBelieve + 1))
    const placeMs = this.#nextPlaceMs(entry, Math.max(everyMs, wait), now)
    entry.dueMs = wait > everyMs ? placeMs : Math.min(placeMs, now.ms + wait)
  }

  /** Takes what the newest ticker says: another than when the last response came is a claim that there is news. */
  claim(target: Target, sign: string, now: Moment): void {
    const entry = this.#entries.get(this.#options.keyOf(target))
    if (entry === undefined || entry.isAsked || entry.wasClaimed || entry.respondedMs === null) return
    if (entry.pace.fruitless === 0 || entry.failures > 0 || entry.sign === sign) return
    const sinceMs = now.ms - entry.respondedMs
    const claimedMs = waitWhenClaimedMs(entry.pace, this.#limits)
    if (claimedMs >= waitMs(entry.pace, this.#limits)) return
    entry.wasClaimed = true
    entry.dueMs = Math.min(entry.dueMs, this.#nextPlaceMs(entry, Math.max(0, claimedMs - sinceMs), now))
  }

  /** Whether a target has had a response. */
  isKnown(target: Target): boolean {
    return (this.#entries.get(this.#options.keyOf(target))?.respondedMs ?? null) !== null
  }

  targets(): Target[] {
    return this.#ranked.map(({ target }) => target)
  }

  /** When the next target is due; infinite when all have been asked. */
  nextMs(nowMs: number): number {
    this.#arrange(nowMs)
    let next = Infinity
    for (const entry of this.#ranked) {
      if (entry.isIn && !entry.isAsked && !(isQuiet(entry) && this.#looks < 1)) next = Math.min(next, entry.dueMs)
    }
    return Math.max(nowMs, next)
  }

  counts(nowMs: number): CycleCounts {
    const lateAfterMs = this.#options.everyMs + graceMs
    let [covered, quiet, late] = [0, 0, 0]
    for (const entry of this.#ranked) {
      if (!entry.isIn) continue
      covered++
      if (isQuiet(entry)) quiet++
      else if (nowMs - entry.dueMs > lateAfterMs) late++
    }
    const isIdle = covered > 0 && this.#ranked.every((entry) => !entry.isIn || (isQuiet(entry) && entry.contents < 2))
    return { covered, quiet, leftOut: this.#ranked.length - covered, late, isIdle }
  }

  #tallyOf(target: Target): Tally {
    return this.#tallies.get(this.#options.groupOf(target)) ?? noTally
  }

  #count(target: Target, what: keyof Tally): Tally {
    const before = this.#tallyOf(target)
    const tally = { ...before, [what]: before[what] + 1 }
    this.#tallies.set(this.#options.groupOf(target), tally)
    return tally
  }

  get #limits() {
    return { everyMs: this.#options.everyMs, maxMs: maxCycleWaitMs }
  }

  /** Gives the places to the first of the ranking; those that bring less take a part of one. */
  #arrange(nowMs: number): void {
    if (this.#isArranged) return
    this.#isArranged = true
    const active = this.#ranked.filter((entry) => !isQuiet(entry))
    const costOf = ({ pace }: Entry<Target>) => this.#options.everyMs / waitMs(pace, this.#limits)
    const chosen = new Set(keepSteady(active, costOf, this.#slots, ({ isIn }) => isIn))
    for (const entry of this.#ranked) {
      // Who was looked at once is looked at again: only a response can tell that it has come to life.
      const isIn = isQuiet(entry) || chosen.has(entry)
      if (isIn && !entry.isIn) entry.dueMs = Math.max(entry.dueMs, nowMs)
      entry.isIn = isIn
    }
  }

  #earnLooks(nowMs: number): void {
    const most = Math.max(1, this.#slots * lookShare)
    const earned = (this.#slots * lookShare * (nowMs - this.#looksAtMs)) / this.#options.everyMs
    this.#looks = Number.isFinite(most) ? Math.min(most, this.#looks + earned) : Infinity
    this.#looksAtMs = nowMs
  }

  /** The first of a target's own places in the cycle after about `waitMs`. */
  #nextPlaceMs({ target }: Entry<Target>, wait: number, now: Moment): number {
    const { everyMs, phaseOf } = this.#options
    const place = nextPlace(now.wall + Math.max(0, wait - everyMs), everyMs, phaseOf(target))
    return now.ms + (place - now.wall)
  }
}

/** Of the requests that have ended in between, 0 to 1; 0 without any. */
function shareAnswered(before: Tally, after: Tally): number {
  const responses = after.responses - before.responses
  return responses === 0 ? 0 : responses / (responses + after.failures - before.failures)
}

function isQuiet({ pace }: Entry<unknown>): boolean {
  return pace.fruitless >= quietAfter
}
