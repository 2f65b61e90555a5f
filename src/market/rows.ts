import type { InstrumentKind } from './instrument.js'
import type { InstrumentKey, TradedCategory } from './category.js'
import type { RowOf } from './stream.js'
import type { Decimal, ServiceMs } from './values.js'

/** A ticker. `ts` is the service's generation time, or its request time if the service left `ts` unset. */
export type Ticker = RowOf<'tickers'>

/** The fields of a ticker that tell how busy its instrument is. */
type TickerSignField =
  | 'volume24h'
  | 'lastPrice'
  | 'bid1Price'
  | 'bid1Size'
  | 'ask1Price'
  | 'ask1Size'
  | 'turnover24h'
  | 'platformTurnover24h'

export type TickerSigns = InstrumentKey & Pick<Ticker, 'ts' | TickerSignField>

/** An instrument's ticker, as far as it tells whether and how much was traded. */
export interface TradeSign {
  /** Time of the ticker, by the service's clock. */
  readonly ts: ServiceMs
  readonly volume24h: string
  readonly lastPrice: string | null
}

/**
 * Turnover on this service in 24 hours, in quote coin; null where the ticker does not say. A tokenised stock's
 * `turnover24h` follows a stock exchange elsewhere, so only `platformTurnover24h` counts; if unset, the turnover is 0.
 * For other kinds, an unset or zero `platformTurnover24h` means nothing.
 */
export function turnoverHere(
  kind: InstrumentKind,
  { turnover24h, platformTurnover24h }: Pick<Ticker, 'turnover24h' | 'platformTurnover24h'>,
): Decimal | null {
  if (platformTurnover24h !== null && Number(platformTurnover24h) > 0) return platformTurnover24h
  return kind === 'tokenised_stock' ? '0' : turnover24h
}

/** A public fill. `side` is the taker's; `size` is in quote coin for COIN-FUTURES and in base coin otherwise. */
export type Fill = Omit<RowOf<'fills'>, 'category'> & InstrumentKey

/** Largest number of newest fills that the service shows in one response. */
export const fillsPerPage = 100

/** A snapshot of an order book. Element 0 of each array is the best level; prices and sizes are parallel arrays. */
export type OrderBook = RowOf<'order_books'>

/** An order book whose sizes are the visible (non-RPI) part. The RPI part of each level is in separate arrays. */
export type RpiOrderBook = RowOf<'rpi_order_books'>

/** A member of the list of symbols that have retail-price-improvement (RPI) quotes. */
export interface RpiSymbol {
  readonly category: TradedCategory
  readonly symbol: string
}
