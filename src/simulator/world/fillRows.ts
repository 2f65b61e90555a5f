import type { Quirks } from './quirks.js'
import { fixed, mixWide, unit } from './hash.js'
import type { Listing } from './listing.js'
import type { Market, TrueFill } from './market.js'

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
export function indexOfId(market: Market, id: bigint): number {
  const index = id - BigInt(idPrefix(market)) * 10n ** BigInt(numberDigits)
  return index <= 0n ? 0 : index < 10n ** BigInt(numberDigits) ? Number(index) : Infinity
}

export function pastFillRow(market: Market, fill: TrueFill, quirks: Quirks): PastFillRow {
  const { listing, key } = market
  const { capitalisedSides, fillsHistoryIds, spotHistoryInSeconds } = quirks
  const isCapital = capitalisedSides === 'mixed' ? unit(mixWide(key ^ 0x51de, fill.index)) < 0.5 : capitalisedSides
  const { execId, price, size, side } = fillRow(market, fill, quirks)
  const inSeconds = spotHistoryInSeconds && listing.category === 'SPOT'
  return {
    tradeId: fillsHistoryIds === 'same' ? execId : `9${execId.slice(1)}`,
    price,
    size,
    side: isCapital ? side.replace(/^./, (first) => first.toUpperCase()) : side,
    symbol: historySymbol(listing),
    ts: inSeconds ? String(Math.floor(fill.ts / 1000)) : String(fill.ts),
  }
}

/** Returns the name of an instrument in the history of fills. */
export function historySymbol({ category, symbol }: Pick<Listing, 'category' | 'symbol'>): string {
  return category === 'COIN-FUTURES' && symbol.endsWith('_CM') ? symbol.slice(0, -3) : symbol
}

export function fillRow(market: Market, fill: TrueFill, quirks: Quirks): FillRow {
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
    ts: String(fill.ts),
    ...(chance(0x4b1) < quirks.missingIsRpi ? {} : { isRPI: upper ? isRpi.toUpperCase() : isRpi }),
  }
}
