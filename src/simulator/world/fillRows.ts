import type { Quirks } from './quirks.js'
import { fixed } from './decimals.js'
import { mixWide, unit } from './hash.js'
import type { Market, TrueFill } from './market.js'

/** A public fill as the operation gives it; `execLinkId` and `isRPI` may be missing. */
export interface FillRow {
  readonly execId: string
  readonly execLinkId?: string
  readonly price: string
  readonly size: string
  readonly side: 'buy' | 'sell'
  readonly ts: string
  readonly isRPI?: string
}

export function fillRow(market: Market, fill: TrueFill, quirks: Quirks): FillRow {
  const { listing, key } = market
  const chance = (what: number): number => unit(mixWide(key ^ what, fill.index))
  const upper = quirks.isRpiUpperCase === 'mixed' ? chance(0x0bbe4) < 0.5 : quirks.isRpiUpperCase
  const isRpi = fill.isRpi ? 'yes' : 'no'
  const number = String(fill.index).padStart(12, '0')
  return {
    execId: `${1_000_000 + listing.marketId}${number}`,
    ...(chance(0x114c) < quirks.missingExecLinkId ? {} : { execLinkId: `${3_000_000 + listing.marketId}${number}` }),
    price: fixed(fill.priceTicks, listing.priceDecimals),
    size: fixed(fill.sizeLots, listing.sizeDecimals),
    side: fill.side,
    ts: String(fill.ts),
    ...(chance(0x4b1) < quirks.missingIsRpi ? {} : { isRPI: upper ? isRpi.toUpperCase() : isRpi }),
  }
}
