import type { Category, TradedCategory } from '../../market/category.js'
import { minuteOf, type TimeMs } from '../../market/values.js'
import type { Quirks } from './quirks.js'
import { fixed, mixWide, unit } from './hash.js'
import type { Listing } from './listing.js'
import { fillAt, type Market, type TrueFill } from './market.js'

/** A public fill as the operation gives it. `execLinkId` and `isRPI` may be missing. */
export interface FillRow {
  readonly execId: string
  readonly execLinkId?: string
  readonly price: string
  readonly size: string
  readonly side: 'buy' | 'sell'
  readonly ts: string
  readonly isRPI?: string
}

/** A public fill as the history of fills gives it. */
export interface PastFillRow {
  readonly tradeId: string
  readonly price: string
  readonly size: string
  readonly side: string
  readonly symbol: string
  readonly ts: string
}

/** Digits of a fill's number within its id. */
const numberDigits = 12

function idPrefix({ listing }: Market): string {
  return `${1_000_000 + listing.marketId}`
}

/** Returns the index of the first fill whose id is not below this one. Any number is accepted. */
function indexOfId(market: Market, id: bigint): number {
  const index = id - BigInt(idPrefix(market)) * 10n ** BigInt(numberDigits)
  return index <= 0n ? 0 : index < 10n ** BigInt(numberDigits) ? Number(index) : Infinity
}

interface PastFillRange {
  readonly from: TimeMs
  readonly to: TimeMs
  readonly idBelow: bigint | null
  /** The oldest fills are wanted instead of the newest. */
  readonly isFromOldest?: boolean
}

/** Returns fills of a half-open range with ids below `idBelow`, as the history gives them, in their order. */
export function pastFillRows(
  market: Market,
  { from, to, idBelow, isFromOldest = false }: PastFillRange,
  limit: number,
  quirks: Quirks,
): readonly PastFillRow[] {
  const [first, end] = market.fillRange(from, to + largestShiftMs(quirks))
  const stop = idBelow === null ? end : Math.min(end, indexOfId(market, idBelow))
  const rows: PastFillRow[] = []
  for (let place = 0; first + place < stop && rows.length < limit; place++) {
    const fill = fillAt(market, isFromOldest ? first + place : stop - 1 - place)
    const ts = shownTime(market, fill, quirks)
    if (ts >= from && ts < to) rows.push(pastFillRow(market, fill, quirks))
  }
  return rows
}

function pastFillRow(market: Market, fill: TrueFill, quirks: Quirks): PastFillRow {
  const { listing, key } = market
  // The service spells some sides with a capital.
  const isCapital = unit(mixWide(key ^ 0x51de, fill.index)) < 0.5
  const { execId, price, size, side, ts } = fillRow(market, fill, quirks)
  const inSeconds = quirks.spotHistoryInSeconds && listing.category === 'SPOT'
  return {
    tradeId: idsOfHistory(quirks, listing.category) === 'same' ? execId : `9${execId.slice(1)}`,
    price,
    size,
    side: isCapital ? side.replace(/^./, (first) => first.toUpperCase()) : side,
    symbol: historySymbol(listing),
    ts: inSeconds ? String(Math.floor(Number(ts) / 1000)) : ts,
  }
}

/** Tells which ids the history of fills has for a category. */
export function idsOfHistory({ fillsHistoryIds }: Quirks, category: Category): 'same' | 'other' {
  if (typeof fillsHistoryIds === 'string') return fillsHistoryIds
  return fillsHistoryIds[category as TradedCategory] ?? 'same'
}

/** Returns the time that responses give for a fill. It is in the same minute as the fill, so that candles agree. */
function shownTime(
  { listing: { category, symbol }, key }: Market,
  { ts, index }: TrueFill,
  { fillsEarlierMs, crowdedFills }: Quirks,
): TimeMs {
  for (const range of crowdedFills) {
    if (ts >= range.from && ts < range.to && isOfInstrument(range, category, symbol)) return range.from
  }
  if (fillsEarlierMs === 0) return ts
  return Math.max(ts - (mixWide(key ^ 0xea51, index) % (fillsEarlierMs + 1)), minuteOf(ts))
}

/** Returns the most by which the true time of a fill is later than the time that responses give for it. */
function largestShiftMs({ fillsEarlierMs, crowdedFills }: Quirks): number {
  return Math.max(fillsEarlierMs, ...crowdedFills.map(({ from, to }) => to - from))
}

/** Returns true if a range of fills or events is about an instrument. It may leave out both names. */
export function isOfInstrument(
  range: { readonly category?: Category | undefined; readonly symbol?: string | undefined },
  category: Category,
  symbol: string,
): boolean {
  return (range.category ?? category) === category && (range.symbol ?? symbol) === symbol
}

/** Returns the name of an instrument in the history of fills. */
export function historySymbol({ category, symbol }: Pick<Listing, 'category' | 'symbol'>): string {
  return category === 'COIN-FUTURES' && symbol.endsWith('_CM') ? symbol.slice(0, -3) : symbol
}

/** Returns the fills with the indices [from, to), as the operation gives them. */
export function fillRows(market: Market, from: number, to: number, quirks: Quirks): FillRow[] {
  return Array.from({ length: to - from }, (_, i) => fillRow(market, fillAt(market, from + i), quirks))
}

function fillRow(market: Market, fill: TrueFill, quirks: Quirks): FillRow {
  const { listing, key } = market
  const chance = (what: number): number => unit(mixWide(key ^ what, fill.index))
  const upper = quirks.isRpiUpperCase === 'mixed' ? chance(0x0bbe4) < 0.5 : quirks.isRpiUpperCase
  const isRpi = fill.isRpi ? 'yes' : 'no'
  const number = String(fill.index).padStart(numberDigits, '0')
  return {
    execId: `${idPrefix(market)}${number}`,
    ...(chance(0x114c) < quirks.missingExecLinkId ? {} : { execLinkId: `${3_000_000 + listing.marketId}${number}` }),
    price: fixed(fill.priceTicks, listing.priceDecimals),
    size: fixed(fill.sizeLots, listing.sizeDecimals),
    side: fill.side,
    ts: String(shownTime(market, fill, quirks)),
    ...(chance(0x4b1) < quirks.missingIsRpi ? {} : { isRPI: upper ? isRpi.toUpperCase() : isRpi }),
  }
}
