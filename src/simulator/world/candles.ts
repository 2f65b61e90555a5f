import type { CandleType } from '../../market/candle.js'
import { hourMs, minuteMs, type TimeMs } from '../../market/values.js'
import { fixed } from './hash.js'
import { nextOpenTime, type ServedInterval } from './intervals.js'
import type { Listing } from './listing.js'
import type { Market } from './market.js'
import { runMs } from './marketFills.js'
import { splitFactor, splitStamp } from './traits.js'

const runsPerMinute = 16

/** A candle in whole units: prices in ticks, volume in lots (base coin), turnover in ticks times lots. */
export interface Bar {
  open: number
  high: number
  low: number
  close: number
  volume: number
  turnover: bigint
}

/** Keeps a number of computed values. The value that was not used for longest goes first. */
class RecentlyUsed<Value> {
  readonly #values = new Map<string, Value>()
  constructor(private readonly capacity: number) {}

  get(key: string, compute: () => Value): Value {
    const known = this.#values.get(key)
    const value = known === undefined ? compute() : known
    this.#values.delete(key)
    this.#values.set(key, value)
    if (this.#values.size > this.capacity) {
      const [oldest] = this.#values.keys()
      if (oldest !== undefined) this.#values.delete(oldest)
    }
    return value
  }
}

/** Keeps the candles of hours that are over, and of their minutes, because such candles never change. */
export interface HourCache {
  readonly hours: RecentlyUsed<Bar | null>
  readonly minutes: RecentlyUsed<readonly (Bar | null)[]>
}

export function createHourCache(): HourCache {
  return { hours: new RecentlyUsed(60_000), minutes: new RecentlyUsed(4_000) }
}

/**
 * Returns the candle that opens at `openTime`, made of what has happened until `until` (inclusive). Null if the
 * instrument was not trading in its time at all.
 */
export function barOf(
  cache: HourCache,
  market: Market,
  type: CandleType,
  interval: ServedInterval,
  openTime: TimeMs,
  midnightMs: number,
  until: TimeMs,
): Bar | null {
  const end = nextOpenTime(openTime, interval, midnightMs)
  if (end - openTime < hourMs) return rollUp(minutesOf(cache, market, type, openTime, end, until))
  const hours: (Bar | null)[] = []
  for (let hour = openTime; hour < end; hour += hourMs) hours.push(hourBar(cache, market, type, hour, until))
  return rollUp(hours)
}

function hourBar(cache: HourCache, market: Market, type: CandleType, hour: TimeMs, until: TimeMs): Bar | null {
  const compute = (): Bar | null => rollUp(minuteBars(market, type, hour, hour + hourMs, until))
  return until >= hour + hourMs - 1 ? cache.hours.get(keyOfHour(market, type, hour, until), compute) : compute()
}

/** Returns one-minute candles of a range of whole minutes within an hour. If the hour is over, all of it is kept. */
export function minutesOf(
  cache: HourCache,
  market: Market,
  type: CandleType,
  from: TimeMs,
  to: TimeMs,
  until: TimeMs,
): readonly (Bar | null)[] {
  const hour = Math.floor(from / hourMs) * hourMs
  if (until < hour + hourMs - 1) return minuteBars(market, type, from, to, until)
  const compute = (): readonly (Bar | null)[] => minuteBars(market, type, hour, hour + hourMs, until)
  const whole = cache.minutes.get(keyOfHour(market, type, hour, until), compute)
  return whole.slice((from - hour) / minuteMs, (to - hour) / minuteMs)
}

/** Numbers of the listings. A changed instrument is a new listing, because it has another past. */
const numbers = new WeakMap<Listing, number>()
let nextNumber = 0

function keyOfHour({ listing }: Market, type: CandleType, hour: TimeMs, until: TimeMs): string {
  let number = numbers.get(listing)
  if (number === undefined) numbers.set(listing, (number = nextNumber++))
  return `${number}:${type}:${hour}:${splitStamp(listing.splits, until)}`
}

function rollUp(bars: readonly (Bar | null)[]): Bar | null {
  let total: Bar | null = null
  for (const bar of bars) {
    if (bar === null) continue
    if (total === null) {
      total = { ...bar }
      continue
    }
    if (bar.high > total.high) total.high = bar.high
    if (bar.low < total.low) total.low = bar.low
    total.close = bar.close
    total.volume += bar.volume
    total.turnover += bar.turnover
  }
  return total
}

/** Returns one-minute candles of whole minutes within one hour; null where the instrument did not trade. */
function minuteBars(
  market: Market,
  type: CandleType,
  from: TimeMs,
  to: TimeMs,
  until: TimeMs,
): readonly (Bar | null)[] {
  const { launchTime, offTime } = market.listing
  const last = Math.min(until, (offTime ?? Number.POSITIVE_INFINITY) - 1)
  const bars = type === 'market' ? filledMinutes(market, from, to, last, until) : []
  return Array.from({ length: (to - from) / minuteMs }, (_, minute) => {
    const openTime = from + minute * minuteMs
    if (openTime > last || openTime + minuteMs <= launchTime) return null
    if (type !== 'market') return sampledBar(market, type, openTime, last)
    const bar = bars[minute]
    if (bar) return bar
    const flat = priceSince(market, market.mid(openTime), openTime, until)
    return { open: flat, high: flat, low: flat, close: flat, volume: 0, turnover: 0n }
  })
}

/** Returns the candles of minutes with fills, as exact sums of the fills. */
function filledMinutes(
  market: Market,
  from: TimeMs,
  to: TimeMs,
  last: TimeMs,
  until: TimeMs,
): readonly (Bar | undefined)[] {
  const bars: (Bar | undefined)[] = []
  const [begin, end] = market.fillRange(from, Math.min(to, last + 1))
  if (begin === end) return bars
  const firstMinute = from / minuteMs
  const add = runAdder(market, until)
  for (let hour = Math.floor(from / hourMs); hour * hourMs < to; hour++) {
    market.fills.eachRun(hour, begin, end, (run, first, count) => {
      const minute = Math.floor(run / runsPerMinute) - firstMinute
      bars[minute] = add(bars[minute], run, first, count)
    })
  }
  return bars
}

type RunAdder = (bar: Bar | undefined, run: number, first: number, count: number) => Bar | undefined

/** Returns a function that adds a run's fills to a candle as given at `until`, with prices adjusted for splits. */
export function runAdder(market: Market, until: TimeMs): RunAdder {
  const { category, priceDecimals, sizeDecimals, splits } = market.listing
  const inQuote = category === 'COIN-FUTURES'
  const toBase = 10 ** (priceDecimals - sizeDecimals + coinVolumeDecimals)
  return (given, run, runFirst, runCount) => {
    let bar = given
    // Fills of one price are added as one amount.
    market.eachPrice(run, runFirst, runCount, (paid, first, count) => {
      const lots = market.fills.sizeOfRange(first, first + count)
      const turnover = inQuote ? BigInt(lots) : product(paid, lots)
      const price = splits.length === 0 ? paid : priceSince(market, paid, run * runMs, until)
      // A split does not change the amount paid. The volume therefore grows by the factor that divides the price.
      const traded = splits.length === 0 ? lots : Math.round(lots * splitFactor(splits, run * runMs, until))
      const volume = inQuote ? Math.round((lots / price) * toBase) : traded
      if (!bar) {
        bar = { open: price, high: price, low: price, close: price, volume, turnover }
        return
      }
      if (price > bar.high) bar.high = price
      if (price < bar.low) bar.low = price
      bar.close = price
      bar.volume += volume
      bar.turnover += turnover
    })
    return bar
  }
}

/** Returns a price of `at` as the service gives it at `until`, after the splits in between. */
function priceSince(market: Market, ticks: number, at: TimeMs, until: TimeMs): number {
  const { splits } = market.listing
  return splits.length === 0 ? ticks : Math.max(1, Math.round(ticks / splitFactor(splits, at, until)))
}

function product(a: number, b: number): bigint {
  const value = a * b
  return Number.isSafeInteger(value) ? BigInt(value) : BigInt(a) * BigInt(b)
}

/** Returns a mark, index or premium candle. Its prices follow a path of their own, and it has no volume. */
function sampledBar(market: Market, type: CandleType, openTime: TimeMs, last: TimeMs): Bar {
  const open = derivedPrice(market, type, openTime)
  const bar = { open, high: open, low: open, close: open, volume: 0, turnover: 0n }
  const end = Math.min(openTime + minuteMs - 1, last)
  for (let at = openTime + 15_000; ; at += 15_000) {
    const price = derivedPrice(market, type, Math.min(at, end))
    if (price > bar.high) bar.high = price
    if (price < bar.low) bar.low = price
    bar.close = price
    if (at >= end) return bar
  }
}

/** Returns the mark or index price in ticks, or the premium in millionths (which may be negative). */
export function derivedPrice(market: Market, type: CandleType, at: TimeMs): number {
  const offset = (market.offsetPath(at) - 1) * 0.003
  if (type === 'premium') return Math.round(offset * 1e6)
  const mid = market.mid(at)
  return type === 'index'
    ? mid - Math.round(mid * offset)
    : type === 'mark'
      ? mid - Math.round(mid * offset * 0.2)
      : mid
}

/** Decimals of the base volume of coin futures. It is the size in quote coin, divided by the price. */
const coinVolumeDecimals = 8
const premiumDecimals = 6

export type CandleRow = readonly [
  timestamp: string,
  open: string,
  high: string,
  low: string,
  close: string,
  baseVolume: string,
  quoteTurnover: string,
]

/** Returns a bar as the service writes it. Candles that are not of type market have the volume "0". */
export function candleRow(market: Market, type: CandleType, openTime: TimeMs, bar: Bar): CandleRow {
  const { category, priceDecimals, sizeDecimals } = market.listing
  const digits = type === 'premium' ? premiumDecimals : priceDecimals
  const price = (units: number): string => fixed(units, digits)
  const prices = [price(bar.open), price(bar.high), price(bar.low), price(bar.close)] as const
  if (type !== 'market') return [String(openTime), ...prices, '0', '0']
  const inQuote = category === 'COIN-FUTURES'
  const volume = fixed(bar.volume, inQuote ? coinVolumeDecimals : sizeDecimals)
  const turnover = fixed(bar.turnover, inQuote ? sizeDecimals : priceDecimals + sizeDecimals)
  return [String(openTime), ...prices, volume, turnover]
}
