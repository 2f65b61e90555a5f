import { hourMs, type TimeMs } from '../../market/values.js'
import { type CommonFactor, createPricePath, type PricePath } from './prices.js'
import { mix, mixText, mixWide, unit } from './hash.js'
import type { Listing } from './listing.js'
import {
  createMarketFills,
  type FillProcess,
  type FillRate,
  runMs,
  type RunVisitor,
  type Sweep,
} from './marketFills.js'
import { splitFactor } from './traits.js'

/** One order book and its trading, in whole ticks and lots. */
export interface Market {
  readonly listing: Listing
  readonly key: number
  readonly fills: FillProcess
  /** Half the distance between the best bid and the best ask, in ticks. */
  readonly halfSpread: number
  /** Mean distance between two price levels, in ticks. */
  readonly levelGap: number
  /** Returns the middle of the book in ticks. */
  mid(at: TimeMs): number
  /** Returns the price of a run's fills in ticks. Fills of a sweep walk away from this price. */
  runPrice(run: number): number
  /** Visits the sequences of fills with one price among `count` fills of a run, in order. */
  eachPrice(run: number, first: number, count: number, visit: PriceVisitor): void
  runSide(run: number): 'buy' | 'sell'
  /** Slow path from which the offsets of the index price and the mark price, and the premium, follow. */
  readonly offsetPath: PricePath
  /** Returns the indices of fills in a half-open range of time in which the instrument was trading. */
  fillRange(from: TimeMs, to: TimeMs): readonly [from: number, to: number]
}

type PriceVisitor = (priceTicks: number, firstIndex: number, count: number) => void

/** @param common activity that all markets of a world share */
export function createMarket(seed: number, listing: Listing, burstiness: number, common: CommonFactor): Market {
  const key = mix(seed, listing.marketId, 0x3a4)
  // Markets of one coin move together. Their prices differ a little, because equal ones would hide mixed-up categories.
  const path = createPricePath(mixText(seed, listing.baseCoin))
  const basis = 1 + (unit(mix(key, 1)) - 0.5) * 0.002
  const { fillsPerHour: perHour, meanSizeLots } = listing
  const basePriceTicks = Math.round(listing.basePriceTicks * basis)
  const rate = { perHour, meanSizeLots, burstiness }
  // Instruments that trade in another exchange's hours do not follow the common bursts. Live ones had fills in nearly
  // every quarter of these hours.
  const fills =
    listing.fillHours === 'weekdays'
      ? inTradingHours(createFillProcess(mix(key, 2), { ...rate, burstiness: 0 }, common))
      : createFillProcess(mix(key, 2), rate, common)
  const halfSpread = Math.max(1, Math.round(basePriceTicks * 5e-5))
  const { splits } = listing
  const mid = (at: TimeMs): number => {
    const price = basePriceTicks * path(at)
    return splits.length === 0
      ? Math.round(price)
      : Math.max(1, Math.round(price / splitFactor(splits, Number.NEGATIVE_INFINITY, at)))
  }
  const isBuy = (run: number): boolean => (mixWide(key, run) & 1) === 1
  const never = Number.POSITIVE_INFINITY
  const end = Math.min(listing.offTime ?? never, listing.lastFillBefore ?? never)
  let firstFill: number | undefined
  let lastStop = Number.NaN
  let lastCount = 0
  const levelGap = Math.max(2, Math.round(basePriceTicks * 2e-5))
  const runPrice = (run: number): number => mid(run * runMs + runMs / 2) + (isBuy(run) ? halfSpread : -halfSpread)
  return {
    listing,
    key,
    fills,
    halfSpread,
    levelGap,
    mid,
    runPrice,
    eachPrice(run, first, count, visit) {
      const price = runPrice(run)
      const step = isBuy(run) ? levelGap : -levelGap
      let next = first
      fills.eachSweep(first, first + count, (sweep) => {
        if (sweep.first > next) visit(price, next, sweep.first - next)
        const levels = levelsOf(sweep)
        for (let level = 0; level < levels; level++) {
          const from = levelStart(sweep, level)
          visit(price + level * step, from, levelStart(sweep, level + 1) - from)
        }
        next = sweep.first + sweep.count
      })
      if (next < first + count) visit(price, next, first + count - next)
    },
    runSide: (run) => (isBuy(run) ? 'buy' : 'sell'),
    offsetPath: createPricePath(mix(key, 3)),
    fillRange(from, to) {
      const stop = Math.min(to, end)
      if (Math.max(from, listing.launchTime) >= stop) return [0, 0]
      // The first fill is remembered, because every ticker needs it, and it may lie years back.
      if (from <= listing.launchTime) firstFill ??= fills.countBefore(listing.launchTime)
      const begin = from <= listing.launchTime ? firstFill : undefined
      if (stop !== lastStop) {
        lastStop = stop
        lastCount = fills.countBefore(stop)
      }
      return [begin ?? fills.countBefore(from), lastCount]
    },
  }
}

/** Visits every run with fills among the indices [from, to), in order. Silence between them costs nothing. */
export function eachRunOf({ fills }: Market, from: number, to: number, visit: RunVisitor): void {
  let next = from
  while (next < to) {
    const hour = Math.floor(fills.timeOf(next) / hourMs)
    fills.eachRun(hour, next, to, visit)
    next = fills.countBefore((hour + 1) * hourMs)
  }
}

/** Returns the number of price levels that a sweep takes. More orders wait at each further level. */
function levelsOf({ count }: Sweep): number {
  return Math.floor(1.5 * Math.log2(count))
}

/** Returns the index of the first fill of a sweep at a price level. */
function levelStart(sweep: Sweep, level: number): number {
  return sweep.first + Math.floor((sweep.count * level) / levelsOf(sweep))
}

function levelOf(sweep: Sweep, index: number): number {
  let level = levelsOf(sweep) - 1
  while (levelStart(sweep, level) > index) level--
  return level
}

/** A fill in whole ticks and lots. */
export interface TrueFill {
  readonly index: number
  readonly ts: TimeMs
  readonly priceTicks: number
  readonly sizeLots: number
  readonly side: 'buy' | 'sell'
  readonly isRpi: boolean
}

export function fillAt(market: Market, index: number): TrueFill {
  const ts = market.fills.timeOf(index)
  const run = Math.floor(ts / runMs)
  const side = market.runSide(run)
  const sweep = market.fills.sweepOf(index)
  const away = sweep === null ? 0 : levelOf(sweep, index) * market.levelGap
  return {
    index,
    ts,
    priceTicks: market.runPrice(run) + (side === 'buy' ? away : -away),
    sizeLots: market.fills.sizeOf(index),
    side,
    isRpi: market.listing.hasRpi && mixWide(market.key ^ 0x491, index) % 6 === 0,
  }
}

/** Creates fills with the traits of a market. Without burstiness, their rate is even. */
export function createFillProcess(key: number, rate: FillRate, common: CommonFactor): FillProcess {
  return rate.burstiness === 0 ? createEvenFills(key, rate) : createMarketFills(key, rate, common)
}

/**
 * Creates fills at the same rate at all hours, with sizes of about the mean. They serve tests that depend on a rate. Time
 * is cut into equal slots, and each has one fill at a place of its own.
 */
function createEvenFills(key: number, { perHour, meanSizeLots }: FillRate): FillProcess {
  const [placeKey, sizeKey] = [mix(key, 0xc0), mix(key, 0x512e)]
  const slotMs = hourMs / perHour
  // The end of a slot stays free, so that rounding cannot put a fill into the next one.
  const timeOf = (index: number): TimeMs => Math.floor((index + 0.98 * unit(mixWide(placeKey, index))) * slotMs)
  const countBefore = (at: TimeMs): number => {
    const slot = Math.floor(at / slotMs)
    return slot + (timeOf(slot) < at ? 1 : 0)
  }
  // A size is the mean plus the difference of two neighbouring noise values. In a sum, all but two of them cancel out.
  const sizeNoise = (index: number): number => mixWide(sizeKey, index) % meanSizeLots
  return {
    countBefore,
    timeOf,
    sizeOf: (index) => meanSizeLots + sizeNoise(index) - sizeNoise(index - 1),
    sizeOfRange: (from, to) => (to <= from ? 0 : (to - from) * meanSizeLots + sizeNoise(to - 1) - sizeNoise(from - 1)),
    eachRun(hour, from, to, visit) {
      const end = Math.min(to, countBefore((hour + 1) * hourMs))
      for (let first = Math.max(from, countBefore(hour * hourMs)); first < end;) {
        const run = Math.floor(timeOf(first) / runMs)
        const next = Math.min(end, countBefore((run + 1) * runMs))
        visit(run, first, next - first)
        first = next
      }
    },
    sweepOf: () => null,
    eachSweep: () => undefined,
  }
}

const runsPerHour = hourMs / runMs

/** Hours of UTC in which stocks are traded here, Monday to Friday. They exceed the exchange's own hours. */
const opensAt = 8
const closesAt = 24
const perDay = closesAt - opensAt
const perWeek = 5 * perDay

/** Returns the number of trading hours from the Monday before the epoch to `hour`, which counts from the epoch. */
function tradingHour(hour: number): number {
  const day = Math.floor(hour / 24)
  const week = Math.floor((day + 3) / 7)
  const weekday = day + 3 - week * 7
  if (weekday >= 5) return week * perWeek + perWeek
  const hourOfDay = hour - day * 24
  return week * perWeek + weekday * perDay + Math.min(perDay, Math.max(0, hourOfDay - opensAt))
}

function isTradingHour(hour: number): boolean {
  const day = Math.floor(hour / 24)
  const hourOfDay = hour - day * 24
  return (day + 3) % 7 < 5 && hourOfDay >= opensAt && hourOfDay < closesAt
}

/** Returns the hour since the epoch in which a trading hour lies. */
function clockHour(trading: number): number {
  const week = Math.floor(trading / perWeek)
  const rest = trading - week * perWeek
  const weekday = Math.floor(rest / perDay)
  return (week * 7 + weekday - 3) * 24 + opensAt + (rest - weekday * perDay)
}

/** Moves the fills of a process into trading hours. Nights and weekends then have no fills. */
function inTradingHours(process: FillProcess): FillProcess {
  const tradingTime = (at: TimeMs): number => {
    const hour = Math.floor(at / hourMs)
    return tradingHour(hour) * hourMs + (isTradingHour(hour) ? at - hour * hourMs : 0)
  }
  return {
    ...process,
    countBefore: (at) => process.countBefore(tradingTime(at)),
    timeOf(index) {
      const at = process.timeOf(index)
      const trading = Math.floor(at / hourMs)
      return clockHour(trading) * hourMs + (at - trading * hourMs)
    },
    eachRun(hour, from, to, visit) {
      if (!isTradingHour(hour)) return
      const trading = tradingHour(hour)
      const moved = (hour - trading) * runsPerHour
      process.eachRun(trading, from, to, (run, first, count) => visit(run + moved, first, count))
    },
  }
}
