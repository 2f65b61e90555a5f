import { hourMs, type TimeMs } from '../../market/values.js'
import { type CommonFactor, createPricePath, type PricePath } from './prices.js'
import type { FillProcess, RunVisitor, Sweep } from './evenFills.js'
import { createFillProcess } from './fills.js'
import { mix, mixText, mixWide, unit } from './hash.js'
import type { Listing } from './listing.js'
import { runMs } from './runs.js'
import { inTradingHours, splitFactor } from './traits.js'

/** One order book and its trading, in whole ticks and lots. */
export interface Market {
  readonly listing: Listing
  readonly key: number
  readonly fills: FillProcess
  /** Half the distance between the best bid and the best ask, in ticks. */
  readonly halfSpread: number
  /** Mean distance between two price levels, in ticks. */
  readonly levelGap: number
  /** Middle of the book in ticks. */
  mid(at: TimeMs): number
  /** Price of the fills of a run in ticks, but for sweeps, which walk away from it. */
  runPrice(run: number): number
  /** Visits the stretches of fills of one price among `count` fills of a run, in order. */
  eachPrice(run: number, first: number, count: number, visit: PriceVisitor): void
  runSide(run: number): 'buy' | 'sell'
  /** Relative offset of the index price, the mark price and the premium, each a slow path of its own. */
  readonly offsetPath: PricePath
  /** Indices of the fills in the half-open range of time that happened while the instrument was trading. */
  fillRange(from: TimeMs, to: TimeMs): readonly [from: number, to: number]
}

type PriceVisitor = (priceTicks: number, firstIndex: number, count: number) => void

/** `common` is what all markets of a world share; null gives fills without the traits of a market. */
export function createMarket(seed: number, listing: Listing, burstiness: number, common: CommonFactor | null): Market {
  const key = mix(seed, listing.marketId, 0x3a4)
  // The markets of one coin move together, each at a distance of its own: equal prices would hide mixed-up categories.
  const path = createPricePath(mixText(seed, listing.baseCoin))
  const basis = 1 + (unit(mix(key, 1)) - 0.5) * 0.002
  const { fillsPerHour: perHour, meanSizeLots } = listing
  const basePriceTicks = Math.round(listing.basePriceTicks * basis)
  const rate = { perHour, meanSizeLots, burstiness }
  // Live instruments in another exchange's hours had fills in nearly every quarter hour of those hours.
  // Such instruments therefore do not follow the common bursts.
  const fills =
    listing.fillHours === 'weekdays'
      ? inTradingHours(createFillProcess(mix(key, 2), rate, null))
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
      // Tickers ask for it each time; it may lie years back.
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

/** Visits every run with fills among the indices [from, to), in order, however much silence there is between them. */
export function eachRunOf({ fills }: Market, from: number, to: number, visit: RunVisitor): void {
  let next = from
  while (next < to) {
    const hour = Math.floor(fills.timeOf(next) / hourMs)
    fills.eachRun(hour, next, to, visit)
    next = fills.countBefore((hour + 1) * hourMs)
  }
}

/** How many price levels a sweep takes: more orders wait at each the further it goes. */
function levelsOf({ count }: Sweep): number {
  return Math.floor(1.5 * Math.log2(count))
}

/** Index of the first fill of a sweep at a price level. */
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
