import { type Candle, type CandleSeries, type Interval, intervalMs, seriesText } from '../../market/candle.js'
import type { TradeSign } from '../../market/rows.js'
import {
  addMs,
  dayMs,
  hourMs,
  largest,
  laterOf,
  type MachineMs,
  minuteMs,
  serviceMs,
  type ServiceMs,
} from '../../market/values.js'
import { backoffMs, type Moment } from '../../runtime/clock.js'
import { type FailureRun, failingWaitMs, GroupOutcomes, isFailingAlone } from './failures.js'
import { afterResponse, fullPace, graceMs, type Pace, waitMs, waitWhenClaimedMs } from './pace.js'

/** Largest number of candles in one response. */
export const candlesPerPage = 1000
/** Candles of more than an hour are requested hourly, because it is not known at which hour they close. */
const longestCycleMs = hourMs
/**
 * Longest time between two requests for a series that brings no trades. A response holds a thousand candles, so a late
 * request loses nothing. A longer wait would make the end of the proven time look like a gap to be repaired.
 */
export const maxCandleWaitMs = 8 * minuteMs
/**
 * Pace of a series whose first response, of up to a thousand candles, shows no trade: as after three fruitless ones.
 */
const slowPace: Pace = { fruitless: 3, misled: 0 }
/**
 * Wait after the service refused a series that never had a response. A series that had one is requested again soon.
 * After further refusals it is requested less and less often, down to once an hour.
 */
const refusedForMs = dayMs

/** A response for the candles of a series. */
interface CandlesSeen {
  readonly rows: readonly Candle[]
  readonly requestTime: ServiceMs
  /** When the response came. */
  readonly received: Moment
  /** True when the request was made because a ticker had claimed a trade. */
  readonly isClaimed: boolean
  /** Volume and price of the newest ticker; null without a ticker. */
  readonly sign: TradeSign | null
}

/** The last response of a series, and what is concluded from it and the ones before. */
interface LastResponse {
  readonly requestTime: ServiceMs
  readonly received: Moment
  readonly pace: Pace
  /** Volume and price of the ticker at the time of the last response; null without a ticker. */
  readonly sign: TradeSign | null
  /** When the newest candle with a trade in it opened; -Infinity when none was seen. */
  readonly tradedAt: ServiceMs
  /** Opening time, volume and close of the newest candle with a trade; null when none was seen. */
  readonly newest: string | null
  /** Opening time of the newest candle that any response has shown; null while none has. */
  readonly newestOpenTime: ServiceMs | null
}

interface Entry<Target> {
  target: Target
  /** When the series was first covered, on the monotonic clock. */
  readonly sinceMs: number
  /** Refusals in a row, since the last response. */
  refusals: number
  failing: FailureRun
  /** The series is not requested before this time of the monotonic clock. */
  restsUntilMs: number
  last: LastResponse | null
}

/**
 * Decides which series of candles are requested after a close. Each series is requested after every close while its
 * responses bring trades. It is requested less and less often when they do not. A ticker that claims a trade, and is
 * still believed, brings the request forward.
 */
export class CandleSchedule<Target extends CandleSeries> {
  readonly #settleMs: number
  #entries = new Map<string, Entry<Target>>()
  readonly #outcomes = new GroupOutcomes()

  /** @param settleMs how long after a close its candles are requested */
  constructor(settleMs: number) {
    this.#settleMs = settleMs
  }

  /** Replaces the series; returns the new ones and the removed ones. The state of the others is kept. */
  retarget(targets: readonly Target[], nowMs: number): { readonly added: Target[]; readonly removed: Target[] } {
    const before = this.#entries
    const added: Target[] = []
    this.#entries = new Map()
    for (const target of targets) {
      const key = seriesText(target)
      const entry = before.get(key)
      if (entry === undefined) added.push(target)
      else entry.target = target
      const failing = this.#outcomes.begin(target.category)
      const fresh = { target, sinceMs: nowMs, refusals: 0, failing, restsUntilMs: -Infinity, last: null }
      this.#entries.set(key, entry ?? fresh)
    }
    const removed = [...before].flatMap(([key, { target }]) => (this.#entries.has(key) ? [] : [target]))
    return { added, removed }
  }

  has(series: CandleSeries): boolean {
    return this.#entries.has(seriesText(series))
  }

  /** When the service gave the last response of a series; undefined before the first. */
  respondedAt(series: CandleSeries): ServiceMs | undefined {
    return this.#entries.get(seriesText(series))?.last?.requestTime
  }

  /** Opening time of the newest candle that any response of a series has shown; null while none has. */
  newestOpenTime(series: CandleSeries): ServiceMs | null {
    return this.#entries.get(seriesText(series))?.last?.newestOpenTime ?? null
  }

  get size(): number {
    return this.#entries.size
  }

  /** Returns the series of an interval that has just closed which should be requested now. */
  due(
    interval: Interval,
    now: Moment,
    signOf: (target: Target) => TradeSign | null,
  ): { readonly target: Target; readonly isClaimed: boolean }[] {
    const limits = candlePaceLimits(interval)
    const due: { readonly target: Target; readonly isClaimed: boolean }[] = []
    for (const { target, restsUntilMs, last } of this.#entries.values()) {
      if (target.interval !== interval || now.ms < restsUntilMs) continue
      // Half an interval is allowed for, because responses come a little earlier or later after each close.
      const sinceMs = last === null ? Infinity : now.ms - last.received.ms + limits.everyMs / 2
      if (last === null || sinceMs >= waitMs(last.pace, limits)) due.push({ target, isClaimed: false })
      else if (sinceMs >= waitWhenClaimedMs(last.pace, limits)) {
        const isClaimed = target.type === 'market' && claimsTrade(last.sign, signOf(target))
        if (isClaimed) due.push({ target, isClaimed })
      }
    }
    return due
  }

  /** Number of candles to request. For a series without a response it is as many as a response can hold. */
  limitFor(target: Target, now: MachineMs): number {
    const last = this.#entries.get(seriesText(target))?.last ?? null
    return last === null ? candlesPerPage : this.candlesSince(last.received.wall, now, target.interval)
  }

  /**
   * Number of newest candles that includes the oldest candle that was not final at `before`, and some before it. Late
   * trades change closed candles, and reading these again in the same request costs nothing.
   */
  candlesSince<Time extends number>(before: Time, now: Time, interval: Interval): number {
    const spare = 12
    const count = Math.ceil(Math.max(0, now - before + this.#settleMs) / intervalMs[interval])
    return Math.min(candlesPerPage, count + spare)
  }

  /** Takes a response; returns the time after which no candle seen so far has had a trade. */
  responded(target: Target, { rows, requestTime, received, isClaimed, sign }: CandlesSeen): ServiceMs {
    const entry = this.#entries.get(seriesText(target))
    const before = entry?.last ?? null
    const { tradedAt, newest } = lastTrade(rows, before)
    const brought = before === null ? tradedAt > -Infinity : newest !== before.newest
    const isSilentAtFirst = before === null && !brought
    const pace = isSilentAtFirst ? slowPace : afterResponse(before?.pace ?? fullPace, { brought, claimed: isClaimed })
    if (entry !== undefined) {
      const newestOfRows = largest(rows.map((candle) => candle.openTime))
      const openTime = laterOf(before?.newestOpenTime ?? newestOfRows, newestOfRows)
      const newestOpenTime = openTime > -Infinity ? openTime : null
      entry.last = { requestTime, received, pace, sign, tradedAt, newest, newestOpenTime }
      entry.refusals = 0
      entry.failing = this.#outcomes.responded(target.category)
    }
    // The trade may have happened at the very end of its candle.
    return addMs(tradedAt, intervalMs[target.interval])
  }

  /** Notes that the service refuses the interval for the instrument. @param nowMs on the monotonic clock */
  refused(target: Target, nowMs: number): void {
    const entry = this.#entries.get(seriesText(target))
    if (entry === undefined) return
    entry.refusals++
    const { everyMs } = candlePaceLimits(target.interval)
    const soonMs = backoffMs(entry.refusals, { minMs: 2 * everyMs, maxMs: Math.max(2 * everyMs, hourMs) })
    entry.restsUntilMs = nowMs + (entry.last === null ? refusedForMs : soonMs)
  }

  /**
   * Notes that no response came. A series that fails while others of its category have responses is requested less and
   * less often. @param nowMs on the monotonic clock
   */
  failed(target: Target, nowMs: number): void {
    const entry = this.#entries.get(seriesText(target))
    if (entry === undefined) return
    entry.failing = this.#outcomes.failed(entry.failing, target.category)
    if (!isFailingAlone(entry.failing)) return
    const { everyMs } = candlePaceLimits(target.interval)
    entry.restsUntilMs = nowMs + failingWaitMs(entry.failing, everyMs)
  }

  /** Counts the series that are requested less often, and those that are overdue. One that fails alone is neither. */
  counts(nowMs: number): { readonly quiet: number; readonly late: number } {
    let [quiet, late] = [0, 0]
    for (const { target, sinceMs, failing, last } of this.#entries.values()) {
      if (isFailingAlone(failing)) continue
      const limits = candlePaceLimits(target.interval)
      const wait = last === null ? limits.everyMs : waitMs(last.pace, limits)
      if (wait > limits.everyMs) quiet++
      const lastMs = last?.received.ms ?? sinceMs
      if (nowMs - lastMs > wait + limits.everyMs + this.#settleMs + graceMs) late++
    }
    return { quiet, late }
  }
}

/** Shortest and longest time between two requests for a series of candles. */
export function candlePaceLimits(interval: Interval) {
  const everyMs = Math.min(longestCycleMs, intervalMs[interval])
  return { everyMs, maxMs: Math.max(everyMs, maxCandleWaitMs) }
}

/** Finds the newest candle with trades. For types that have no volume it is the newest one in which the price moved. */
function lastTrade(rows: readonly Candle[], before: LastResponse | null): Pick<LastResponse, 'tradedAt' | 'newest'> {
  let last: Candle | undefined
  let previousClose: string | undefined
  for (const candle of rows.toSorted((a, b) => a.openTime - b.openTime)) {
    const isMoving = candle.high !== candle.low || (previousClose !== undefined && candle.close !== previousClose)
    if (Number(candle.baseVolume) > 0 || (candle.type !== 'market' && isMoving)) last = candle
    previousClose = candle.close
  }
  if (last === undefined) return { tradedAt: before?.tradedAt ?? serviceMs(-Infinity), newest: before?.newest ?? null }
  return { tradedAt: last.openTime, newest: `${last.openTime} ${last.baseVolume} ${last.close}` }
}

function claimsTrade(before: TradeSign | null, now: TradeSign | null): boolean {
  if (before === null || now === null) return before !== now
  return before.volume24h !== now.volume24h || before.lastPrice !== now.lastPrice
}
