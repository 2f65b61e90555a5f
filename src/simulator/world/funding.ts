import type { Category } from '../../market/category.js'
import { dayMs, hourMs, minuteMs, type TimeMs } from '../../market/values.js'
import { fixed, mix, mixText, mixWide } from './hash.js'
import { isOfInstrument } from './fillRows.js'
import type { Listing } from './listing.js'
import type { Quirks } from './quirks.js'
import { fillAt, type Market } from './market.js'

/** How far back the service shows settled rates, and liquidations. */
const ratesReachMs = 90 * dayMs
const liquidationsReachMs = 3 * dayMs
/** How much later than it happened a liquidation is shown. */
const liquidationDelayMs = 4_000

export interface FundingRateRow {
  readonly symbol: string
  readonly fundingRate: string
  readonly fundingRateTimestamp: string
}

export interface FundingForecastRow {
  readonly symbol: string
  readonly fundingRate: string
  readonly fundingRateInterval: string
  readonly nextUpdate: string
  readonly minFundingRate: string | null
  readonly maxFundingRate: string | null
  readonly cashDividend: string
  readonly cashDividendNextUpdate: string
}

interface LiquidationRow {
  readonly symbol: string
  readonly side: 'buy' | 'sell'
  readonly price: string
  readonly amount: string
  readonly ts: string
}

/** Returns the hours between two settlements of an instrument. */
export function fundingHours({ marketId, category }: Listing): 1 | 2 | 4 | 8 {
  return ([1, 2, 4, 8] as const)[mix(mixText(marketId, category), 6) % 4] ?? 8
}

/** A page of rows as of `at`. Pages are counted from 1, from the newest row or from the oldest. */
interface NumberedPage {
  readonly at: TimeMs
  readonly page: number
  readonly limit: number
  readonly isFromOldest: boolean
}

/** Returns a page of the settled rates, without those that are hidden. */
export function fundingRateRows(
  market: Market,
  { at, page, limit, isFromOldest }: NumberedPage,
  quirks: Quirks,
): FundingRateRow[] {
  const { listing } = market
  const { category, symbol, launchTime, offTime } = listing
  const everyMs = fundingHours(listing) * hourMs
  const newest = Math.floor(Math.min(at, offTime ?? at) / everyMs)
  const oldest = Math.ceil(Math.max(at - ratesReachMs, launchTime) / everyMs)
  const isHidden = hiddenEventsOf(quirks, 'history-fund-rate', category, symbol, at)
  const places = Array.from({ length: Math.max(0, newest - oldest + 1) }, (_, index) => newest - index).filter(
    (place) => !isHidden(place * everyMs),
  )
  if (isFromOldest) places.reverse()
  return places.slice((page - 1) * limit, page * limit).map((place) => {
    const lateMs = mix(at, place, 0xf2) % (quirks.settlementsLateMs + 1)
    const fundingRateTimestamp = String(place * everyMs + lateMs)
    return { symbol, fundingRate: fixed(millionths(market, place), 6), fundingRateTimestamp }
  })
}

/** Returns a function that tells which times of an instrument's rates or liquidations are hidden at the moment. */
function hiddenEventsOf(
  { hiddenEvents }: Quirks,
  operation: Quirks['hiddenEvents'][number]['operation'],
  category: Category,
  symbol: string,
  at: TimeMs,
): (ts: TimeMs) => boolean {
  const hidden = hiddenEvents.filter(
    (range) =>
      range.operation === operation && at < (range.until ?? Infinity) && isOfInstrument(range, category, symbol),
  )
  return (ts) => hidden.some(({ from, to }) => ts >= from && ts < to)
}

/** Returns the forming rate of an instrument, which stays near the rate that will be settled. */
export function fundingForecastRow(market: Market, at: TimeMs): FundingForecastRow {
  const hours = fundingHours(market.listing)
  const next = Math.floor(at / (hours * hourMs)) + 1
  const away = (mix(market.key, Math.floor(at / minuteMs), 0xf1) % 21) - 10
  return {
    symbol: market.listing.symbol,
    fundingRate: fixed(millionths(market, next) + away, 6),
    fundingRateInterval: String(hours),
    nextUpdate: String(next * hours * hourMs),
    minFundingRate: '-0.003',
    maxFundingRate: '0.003',
    cashDividend: '0',
    cashDividendNextUpdate: '0',
  }
}

/** Returns forming rates of the service's own test symbols. They have no bounds, and are on no list of instruments. */
export function testForecastRows(category: Category, at: TimeMs): FundingForecastRow[] {
  if (category !== 'USDT-FUTURES') return []
  return Array.from({ length: 12 }, (_, index) => ({
    symbol: `TEST${index}USDT`,
    fundingRate: '0.0001',
    fundingRateInterval: '8',
    nextUpdate: String((Math.floor(at / (8 * hourMs)) + 1) * 8 * hourMs),
    minFundingRate: null,
    maxFundingRate: null,
    cashDividend: '0',
    cashDividendNextUpdate: '0',
  }))
}

function millionths(market: Market, place: number): number {
  return (mix(market.key, place, 0xf0) % 400) - 100
}

/**
 * Returns liquidations as of `at`, made of fills, without those that are hidden. `next` is the cursor of the next page,
 * or null at the end. About every fortieth fill is a liquidation, and some are two equal ones.
 *
 * @param cursor index of the fill that the page before ended with; null for the first page
 */
export function liquidationRows(
  market: Market,
  { at, cursor, limit, isFromOldest }: Omit<NumberedPage, 'page'> & { readonly cursor: number | null },
  quirks: Quirks,
): { readonly rows: readonly LiquidationRow[]; readonly next: number | null } {
  const { listing } = market
  const isHidden = hiddenEventsOf(quirks, 'liquidations', listing.category, listing.symbol, at)
  const [first, end] = market.fillRange(at - liquidationsReachMs, at - liquidationDelayMs + 1)
  const rows: LiquidationRow[] = []
  const begin = isFromOldest ? Math.max(first, (cursor ?? first - 1) + 1) : Math.min(end, cursor ?? end) - 1
  const step = isFromOldest ? 1 : -1
  for (let index = begin; index >= first && index < end; index += step) {
    const chance = mixWide(market.key ^ 0x11d, index) % 200
    if (chance >= 5) continue
    const { side, priceTicks, sizeLots, ts } = fillAt(market, index)
    if (isHidden(ts)) continue
    if (rows.length + 2 > Math.max(2, limit)) return { rows, next: index - step }
    const [price, amount] = [fixed(priceTicks, listing.priceDecimals), fixed(sizeLots, listing.sizeDecimals)]
    const row = { symbol: listing.symbol, side, price, amount, ts: String(ts) }
    rows.push(row)
    if (chance === 0) rows.push(row)
  }
  return { rows, next: null }
}
