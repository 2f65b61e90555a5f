import type { Category } from '../../market/category.js'
import { hourMs, minuteMs, type TimeMs } from '../../market/values.js'
import {
  type Bar,
  barOf,
  candleRow,
  type CandleRow,
  createHourCache,
  type HourCache,
  minutesOf,
  runAdder,
} from './candles.js'
import { mixText, unit } from './hash.js'
import { nextOpenTime, openTimeBefore, openTimeOf, type ServedInterval, type ServedSeries } from './intervals.js'
import { runMs } from './marketFills.js'
import { eachRunOf, type Market } from './market.js'
import type { Quirks } from './quirks.js'

/** The candles that the service gives of each series. */
export interface ServedCandles {
  /** Returns every candle that opens in the half-open range, ascending, as of `at`, including the forming one. */
  candles(series: ServedSeries, from: TimeMs, to: TimeMs, at: TimeMs): readonly CandleRow[]
  /** Returns when the earliest of the `limit` most recent candles opens that open in the half-open range. */
  earliestOf(series: ServedSeries, from: TimeMs, to: TimeMs, at: TimeMs, limit: number): TimeMs
  /** Returns true if the series has no candles for intervals without a trade. */
  leavesOutSilence(series: ServedSeries): boolean
  /** Returns when the candle that holds `at` opens; `closeTime` returns when the next one does. */
  openTime(series: ServedSeries, at: TimeMs): TimeMs
  closeTime(series: ServedSeries, openTime: TimeMs): TimeMs
}

/** Instruments with at most this many fills per hour are thinly traded. Their candles may omit silent intervals. */
const quietFillsPerHour = 120

export function createServedCandles(
  seed: number,
  marketOf: (category: Category, symbol: string) => Market,
  quirks: () => Quirks,
): ServedCandles {
  const cache = createHourCache()
  const midnightMs = (): number => (quirks().dailyOpenAt16Utc ? -28_800_000 : 0)
  const leavesOutSilence = ({ category, symbol, type }: ServedSeries): boolean => {
    if (type !== 'market') return false
    const { candles, fillsPerHour } = marketOf(category, symbol).listing
    if (candles !== 'every') return true
    const { silentInstruments } = quirks()
    const isQuiet = silentInstruments > 0 && fillsPerHour <= quietFillsPerHour
    return isQuiet && unit(mixText(seed, `silent ${category} ${symbol}`)) < silentInstruments
  }
  return {
    candles(series, from, to, at) {
      const market = marketOf(series.category, series.symbol)
      if (market.listing.candles === 'none') return []
      return leavesOutSilence(series)
        ? tradedCandles(market, series.interval, midnightMs(), from, to, at)
        : everyCandle(cache, market, series, midnightMs(), from, to, at)
    },
    earliestOf(series, from, to, at, limit) {
      const midnight = midnightMs()
      if (leavesOutSilence(series)) {
        const market = marketOf(series.category, series.symbol)
        return earliestTraded(market, series.interval, midnight, from, to, at, limit)
      }
      const newest = openTimeOf(to - 1, series.interval, midnight)
      return Math.max(from, openTimeBefore(newest, series.interval, midnight, limit - 1))
    },
    leavesOutSilence,
    openTime: (series, at) => openTimeOf(at, series.interval, midnightMs()),
    closeTime: (series, openTime) => nextOpenTime(openTime, series.interval, midnightMs()),
  }
}

/** Returns the candles that open in the half-open range, ascending, with those without trades. */
function everyCandle(
  cache: HourCache,
  market: Market,
  { type, interval }: ServedSeries,
  midnight: number,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
): CandleRow[] {
  const { launchTime, offTime } = market.listing
  const next = (openTime: TimeMs): TimeMs => nextOpenTime(openTime, interval, midnight)
  const earliest = openTimeOf(launchTime, interval, midnight)
  const opens = openTimeOf(from, interval, midnight)
  const first = Math.max(opens < from ? next(opens) : opens, earliest)
  const end = Math.min(to, at + 1, offTime ?? to)
  const rows: CandleRow[] = []
  const add = (openTime: TimeMs, bar: Bar | null): void => {
    if (bar !== null) rows.push(candleRow(market, type, openTime, bar))
  }
  if (interval !== '1m') {
    for (let openTime = first; openTime < end; openTime = next(openTime))
      add(openTime, barOf(cache, market, type, interval, openTime, midnight, at))
    return rows
  }
  // The minutes of an hour are computed together, which is cheaper than one by one.
  for (let start = first; start < end;) {
    const stop = Math.min(Math.floor(start / hourMs) * hourMs + hourMs, Math.ceil(end / minuteMs) * minuteMs)
    for (const [i, bar] of minutesOf(cache, market, type, start, stop, at).entries()) add(start + i * minuteMs, bar)
    start = stop
  }
  return rows
}

/** Returns the candles with trades that open in the half-open range, ascending. Candles without trades are left out. */
function tradedCandles(
  market: Market,
  interval: ServedInterval,
  midnightMs: number,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
): CandleRow[] {
  const rows: CandleRow[] = []
  const opens = openTimeOf(from, interval, midnightMs)
  const first = opens < from ? nextOpenTime(opens, interval, midnightMs) : opens
  const lastOpens = openTimeOf(to - 1, interval, midnightMs)
  if (lastOpens < first) return rows
  const [begin, end] = market.fillRange(first, Math.min(nextOpenTime(lastOpens, interval, midnightMs), at + 1))
  const add = runAdder(market, at)
  let openTime = first
  let closeTime = first
  let bar: Bar | undefined
  const finish = (): void => {
    if (bar !== undefined) rows.push(candleRow(market, 'market', openTime, bar))
    bar = undefined
  }
  eachRunOf(market, begin, end, (run, firstOfRun, count) => {
    const time = run * runMs
    if (time >= closeTime) {
      finish()
      openTime = openTimeOf(time, interval, midnightMs)
      closeTime = nextOpenTime(openTime, interval, midnightMs)
    }
    bar = add(bar, run, firstOfRun, count)
  })
  finish()
  return rows
}

/** Returns the opening time of the earliest of the `limit` most recent candles with trades in a half-open range. */
function earliestTraded(
  market: Market,
  interval: ServedInterval,
  midnightMs: number,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
  limit: number,
): TimeMs {
  const lastClose = nextOpenTime(openTimeOf(to - 1, interval, midnightMs), interval, midnightMs)
  let before = Math.min(lastClose, at + 1)
  let earliest = to
  for (let count = 0; count < limit; count++) {
    const [begin, end] = market.fillRange(0, before)
    if (begin === end) return earliest
    const openTime = openTimeOf(market.fills.timeOf(end - 1), interval, midnightMs)
    if (openTime < from) return earliest
    earliest = openTime
    before = openTime
  }
  return earliest
}
