import type { TimeMs } from '../../market/values.js'
import { createFillProcess, type FillProcess, type RunVisitor, runMs } from './fills.js'
import { mix, mixText, mixWide, unit } from './hash.js'
import type { Listing } from './listing.js'
import { createPricePath, type PricePath } from './prices.js'
import { splitFactor } from './splits.js'
import { inTradingHours } from './tradingHours.js'

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
  /** Price of the fills of a run in ticks. */
  runPrice(run: number): number
  runSide(run: number): 'buy' | 'sell'
  /** Relative offset of the index price, the mark price and the premium, each a slow path of its own. */
  readonly offsetPath: PricePath
  /** Indices of the fills in the half-open range of time that happened while the instrument was trading. */
  fillRange(from: TimeMs, to: TimeMs): readonly [from: number, to: number]
}

export function createMarket(seed: number, listing: Listing, burstiness: number): Market {
  const key = mix(seed, listing.marketId, 0x3a4)
  // The markets of one coin move together, each at a distance of its own: equal prices would hide mixed-up categories.
  const path = createPricePath(mixText(seed, listing.baseCoin))
  const basis = 1 + (unit(mix(key, 1)) - 0.5) * 0.002
  const { fillsPerHour: perHour, meanSizeLots } = listing
  const basePriceTicks = Math.round(listing.basePriceTicks * basis)
  const allDay = createFillProcess(mix(key, 2), { perHour, meanSizeLots, burstiness })
  const fills = listing.fillHours === 'weekdays' ? inTradingHours(allDay) : allDay
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
  return {
    listing,
    key,
    fills,
    halfSpread,
    levelGap: Math.max(2, Math.round(basePriceTicks * 2e-5)),
    mid,
    runPrice: (run) => mid(run * runMs + runMs / 2) + (isBuy(run) ? halfSpread : -halfSpread),
    runSide: (run) => (isBuy(run) ? 'buy' : 'sell'),
    offsetPath: createPricePath(mix(key, 3)),
    fillRange(from, to) {
      const begin = Math.max(from, listing.launchTime)
      const stop = Math.min(to, end)
      if (begin >= stop) return [0, 0]
      return [fills.countBefore(begin), fills.countBefore(stop)]
    },
  }
}

const hourMs = 3_600_000

/** Visits every run with fills among the indices [from, to), in order, however much silence there is between them. */
export function eachRunOf({ fills }: Market, from: number, to: number, visit: RunVisitor): void {
  let next = from
  while (next < to) {
    const hour = Math.floor(fills.timeOf(next) / hourMs)
    fills.eachRun(hour, next, to, visit)
    next = fills.countBefore((hour + 1) * hourMs)
  }
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
  return {
    index,
    ts,
    priceTicks: market.runPrice(run),
    sizeLots: market.fills.sizeOf(index),
    side: market.runSide(run),
    isRpi: market.listing.hasRpi && mixWide(market.key ^ 0x491, index) % 6 === 0,
  }
}
