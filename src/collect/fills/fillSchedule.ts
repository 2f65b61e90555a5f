import type { TimeMs } from '../../market/values.js'
import { fillsPerPage } from './fillContinuity.js'
import { averageRate, currentRate, smallSize } from './fillRate.js'

export interface FillScheduleOptions {
  /** Least time between two requests for an instrument. */
  readonly minPollMs: number
  /** Most time between two requests for an instrument of which nothing tells whether it traded. */
  readonly maxPollMs: number
}

/** What an answer tells of an instrument's activity: its fills newest first, by the service's clock. */
export interface SeenFill {
  readonly ts: TimeMs
  readonly size: string
}

/** An instrument's ticker, as far as it tells whether and how much was traded. */
export interface TradeSign {
  /** When it was true, by the service's clock. */
  readonly ts: TimeMs
  readonly volume24h: string
  readonly lastPrice: string | null
}

export interface FillLoad {
  /** Requests a second without which fills are lost: all answers full. */
  readonly neededPerSecond: number
  /** Requests a second that leave room for bursts. */
  readonly wantedPerSecond: number
  /** Answers that came later than the moment by which an overlap was expected, since the start. */
  readonly late: number
}

interface Entry<Target> {
  readonly target: Target
  /** Fills expected per millisecond, on the side of a burst. */
  rate: number
  /** The same over the last minutes: an instrument that is quiet now may be in a burst the next moment. */
  meanRate: number
  newestTs: TimeMs
  /** A small fill of the last answer, in the unit of the volume. */
  size: number
  /** When `behind` held, on the monotonic clock. */
  seenAtMs: number
  /** How many fills had happened then that no answer showed yet. */
  behind: number
  /** The last answer on both clocks; null before the first. */
  answered: { readonly atMs: number; readonly serviceTime: TimeMs } | null
  /** The newest ticker that is not younger than the last answer, and the newest of all. */
  baseline: TradeSign | null
  sign: TradeSign | null
  failures: number
  failedAtMs: number
  isAsked: boolean
  deadlineMs: number
}

/**
 * So much of an answer is expected to be new when an instrument with so many fills a second is due. Half would do if trading
 * were even; but bursts come without notice, and only an answer with room for one shows it. The values are those with
 * which `npm run bench -- fills` captures most.
 */
const dueShare = 0.17
const usualPerSecond = 10
const dueExponent = 0.3
const [leastDueShare, mostDueShare] = [0.05, 0.4]
/** How long an instrument's activity is remembered. */
const averagedOverMs = 300_000
/** The most an instrument that the tickers call idle goes unasked: tickers can be wrong, too. */
const longestTrustMs = 3_600_000
const mostBackoffMs = 30_000

/**
 * Decides when each instrument's fills are asked for, so that consecutive answers overlap with as few requests as possible.
 *
 * An instrument is due when a part of an answer is expected to be new, and must be asked before a whole one is: that is
 * the deadline by which the pacer orders. When there are not enough requests for all, every answer is late by about the same
 * time, which costs those that trade little next to nothing: the busiest suffer first. Tickers, which come for all at once,
 * tell who did not trade at all, and who trades much more than the last answer showed. Times are of the monotonic clock.
 */
export class FillSchedule<Target> {
  readonly #keyOf: (target: Target) => string
  readonly #options: FillScheduleOptions
  readonly #entries = new Map<string, Entry<Target>>()
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
        rate: 0,
        meanRate: 0,
        newestTs: -Infinity,
        size: 0,
        seenAtMs: nowMs,
        behind: 0,
        answered: null,
        baseline: null,
        sign: null,
        failures: 0,
        failedAtMs: nowMs,
        isAsked: false,
        deadlineMs: nowMs,
      })
    }
  }

  targets(): Target[] {
    return [...this.#entries.values()].map(({ target }) => target)
  }

  /** Takes the instruments that are due. Each is answered or failed later, and not due again before. */
  take(nowMs: number): { readonly target: Target; readonly deadlineMs: number }[] {
    const due: { target: Target; deadlineMs: number }[] = []
    for (const entry of this.#entries.values()) {
      if (entry.isAsked || this.#dueMs(entry) > nowMs) continue
      entry.isAsked = true
      // A first answer can wait for those of instruments that are known to trade.
      const latestMs = nowMs + this.#options.maxPollMs
      entry.deadlineMs = entry.answered === null ? latestMs : Math.min(reachesMs(entry, fillsPerPage), latestMs)
      due.push({ target: entry.target, deadlineMs: entry.deadlineMs })
    }
    return due
  }

  /** When the next instrument is due; infinite when all have been asked. */
  nextMs(): number {
    let next = Infinity
    for (const entry of this.#entries.values()) if (!entry.isAsked) next = Math.min(next, this.#dueMs(entry))
    return next
  }

  /** @param atMs when the answer came; @param serviceTime when the service gave it, by its own clock */
  answered(target: Target, newestFirst: readonly SeenFill[], serviceTime: TimeMs, atMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    if (entry.answered !== null && atMs > entry.deadlineMs) this.#late++
    entry.meanRate = longRate(entry, newestFirst, serviceTime)
    entry.rate = Math.max(currentRate(newestFirst, serviceTime), entry.meanRate)
    entry.newestTs = newestFirst[0]?.ts ?? entry.newestTs
    entry.size = smallSize(newestFirst)
    entry.seenAtMs = atMs
    entry.behind = 0
    entry.answered = { atMs, serviceTime }
    if (entry.sign !== null && entry.sign.ts <= serviceTime) entry.baseline = entry.sign
    entry.failures = 0
    entry.isAsked = false
  }

  failed(target: Target, nowMs: number): void {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined) return
    entry.failures++
    entry.failedAtMs = nowMs
    entry.isAsked = false
  }

  /**
   * Takes what a ticker tells, and returns whether that is that nothing was traded since the last answer. A ticker that is
   * older than the last answer only serves for comparison later.
   */
  traded(target: Target, sign: TradeSign): boolean {
    const entry = this.#entries.get(this.#keyOf(target))
    if (entry === undefined || (entry.sign !== null && sign.ts <= entry.sign.ts)) return false
    entry.sign = sign
    const { answered, baseline } = entry
    if (answered === null) return false
    if (sign.ts <= answered.serviceTime) {
      entry.baseline = sign
      return false
    }
    if (baseline === null) return false
    entry.seenAtMs = answered.atMs + (sign.ts - answered.serviceTime)
    const isUnchanged = baseline.volume24h === sign.volume24h && baseline.lastPrice === sign.lastPrice
    if (isUnchanged) return true
    const volume = Number(sign.volume24h) - Number(baseline.volume24h)
    const counted = entry.size > 0 && volume > 0 ? volume / entry.size : 0
    entry.behind = Math.max(entry.behind, 1, Math.min(counted, fillsPerPage))
    return false
  }

  load(): FillLoad {
    let needed = 0
    let wanted = 0
    for (const entry of this.#entries.values()) {
      needed += entry.meanRate / fillsPerPage
      wanted += entry.rate / roomTakenWhenDue(entry)
    }
    return { neededPerSecond: needed * 1000, wantedPerSecond: wanted * 1000, late: this.#late }
  }

  #dueMs(entry: Entry<Target>): number {
    const { minPollMs, maxPollMs } = this.#options
    const { answered, failures } = entry
    if (failures > 0) return entry.failedAtMs + Math.min(mostBackoffMs, minPollMs * 2 ** Math.min(failures - 1, 10))
    if (answered === null) return entry.seenAtMs
    const isIdle = entry.behind === 0 && entry.seenAtMs > answered.atMs
    const latest = answered.atMs + (isIdle ? Math.max(longestTrustMs, maxPollMs) : maxPollMs)
    return Math.min(latest, Math.max(answered.atMs + minPollMs, reachesMs(entry, roomTakenWhenDue(entry))))
  }
}

/** When so many fills are expected to have happened that no answer showed. */
function reachesMs(
  { seenAtMs, behind, rate }: Pick<Entry<unknown>, 'seenAtMs' | 'behind' | 'rate'>,
  count: number,
): number {
  if (behind >= count) return seenAtMs
  return rate > 0 ? seenAtMs + (count - behind) / rate : Infinity
}

/** The average after an answer: what is new in it, over the time since the one before. */
function longRate(
  { answered, meanRate, newestTs }: Pick<Entry<unknown>, 'answered' | 'meanRate' | 'newestTs'>,
  newestFirst: readonly SeenFill[],
  serviceTime: TimeMs,
): number {
  if (answered === null) return averageRate(newestFirst, serviceTime)
  const elapsedMs = serviceTime - answered.serviceTime
  if (elapsedMs <= 0) return meanRate
  const newFills = newestFirst.filter(({ ts }) => ts > newestTs).length
  const weight = -Math.expm1(-elapsedMs / averagedOverMs)
  return meanRate + (newFills / elapsedMs - meanRate) * weight
}

/** A burst multiplies a small rate by more than a large one, so an answer of a quiet instrument keeps more room for it. */
function roomTakenWhenDue({ meanRate }: Pick<Entry<unknown>, 'meanRate'>): number {
  const share = dueShare * ((meanRate * 1000) / usualPerSecond) ** dueExponent
  return fillsPerPage * Math.min(mostDueShare, Math.max(leastDueShare, share))
}

/** Beyond this share of what is allowed there is no room left for a burst of many instruments at once. */
const comfortableShare = 0.8

/** Says that the limits do not suffice for all instruments, before fills are lost for it; null when they do. */
export function fillShortage({ neededPerSecond }: FillLoad, allowedPerSecond: number): string | null {
  if (neededPerSecond <= allowedPerSecond * comfortableShare) return null
  const what = `${neededPerSecond.toFixed(1)} requests/s are needed with every answer full, ${allowedPerSecond.toFixed(1)} are allowed`
  const then = neededPerSecond > allowedPerSecond ? 'the busiest instruments lose fills' : 'bursts may cost fills'
  return `${what}: ${then}; cover fewer with streams.fills.select`
}
