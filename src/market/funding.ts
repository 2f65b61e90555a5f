import type { TradedCategory } from './category.js'
import type { Decimal, Extra, TimeMs } from './values.js'

export type FuturesCategory = Exclude<TradedCategory, 'SPOT'>
export const futuresCategories = ['USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES'] as const satisfies FuturesCategory[]

/** A rate at which funding was settled. */
export interface FundingRate {
  readonly category: FuturesCategory
  readonly symbol: string
  /** When it was settled. */
  readonly ts: TimeMs
  readonly fundingRate: Decimal
  readonly receivedAt: TimeMs
  readonly extra: Extra
}

/** The rate of the next settlement, as it forms. */
export interface FundingForecast {
  readonly category: FuturesCategory
  readonly symbol: string
  /** The service's time of the response: the row has none. */
  readonly ts: TimeMs
  readonly fundingRate: Decimal
  readonly intervalHours: number | null
  readonly nextUpdate: TimeMs | null
  readonly minRate: Decimal | null
  readonly maxRate: Decimal | null
  readonly receivedAt: TimeMs
  readonly extra: Extra
}

/** A position that was liquidated. It has no id: two equal rows are two of them. */
export interface Liquidation {
  readonly category: FuturesCategory
  readonly symbol: string
  readonly ts: TimeMs
  /** As the service says it: buy means that a long position was liquidated. */
  readonly side: 'buy' | 'sell'
  readonly price: Decimal
  readonly amount: Decimal
  readonly receivedAt: TimeMs
  readonly extra: Extra
}
