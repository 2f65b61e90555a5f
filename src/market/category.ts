/** Product lines of the service. The same symbol may exist in several of them. */
export const categories = ['SPOT', 'MARGIN', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES'] as const
export type Category = (typeof categories)[number]

/** The categories that have tickers, order books and candles. Margin has none, because it trades on the spot books. */
export const tradedCategories = ['SPOT', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES'] as const
export type TradedCategory = (typeof tradedCategories)[number]

/** The identity of an instrument. A symbol alone is not enough, because several categories may have it. */
export interface InstrumentKey {
  readonly category: Category
  readonly symbol: string
}

/**
 * Returns an instrument in words, for keys and messages. No two instruments have the same text. Recorders of one
 * database divide the work by this text, so its form never changes.
 */
export function instrumentText({ category, symbol }: InstrumentKey): string {
  return `${category} ${symbol}`
}

export function isTradedCategory(category: Category): category is TradedCategory {
  return category !== 'MARGIN'
}

export type FuturesCategory = Exclude<TradedCategory, 'SPOT'>
export const futuresCategories = ['USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES'] as const satisfies FuturesCategory[]

export interface FutureKey extends InstrumentKey {
  readonly category: FuturesCategory
}

export function isFuture(key: InstrumentKey): key is FutureKey {
  return futuresCategories.some((category) => category === key.category)
}
