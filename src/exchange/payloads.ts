import type { Instrument } from '../market/instrument.js'
import type { RpiSymbol } from '../market/orderBook.js'
import type { Ticker, TickerField } from '../market/ticker.js'
import type { Decimal, Extra, TimeMs } from '../market/values.js'

/**
 * What each operation's rows look like after validation. Spellings of the wire are gone: decimals are plain decimal
 * text, times are numbers, yes and no are booleans, and "not set" is null. What the service meant stays as it was.
 */

export type InstrumentPayload = Instrument

/** `category` is null where the row does not repeat it; `ts` is null where the service left it unset. */
export type TickerPayload = { readonly [Field in TickerField]: Ticker[Field] } & {
  readonly category: Ticker['category'] | null
  readonly symbol: string
  readonly ts: TimeMs | null
  readonly extra: Extra
}

export type RpiSymbolPayload = RpiSymbol

export interface FillPayload {
  readonly execId: string
  readonly execLinkId: string | null
  readonly price: Decimal
  readonly size: Decimal
  readonly side: 'buy' | 'sell'
  readonly ts: TimeMs
  readonly isRpi: boolean | null
  readonly extra: Extra
}

export interface CandlePayload {
  readonly openTime: TimeMs
  readonly open: Decimal
  readonly high: Decimal
  readonly low: Decimal
  readonly close: Decimal
  readonly baseVolume: Decimal
  readonly quoteTurnover: Decimal
}

/** One side of a book, best level first: prices and sizes are parallel arrays. */
export interface BookSide {
  readonly prices: readonly Decimal[]
  readonly sizes: readonly Decimal[]
}
export interface RpiBookSide extends BookSide {
  readonly rpiSizes: readonly Decimal[]
}

export interface OrderBookPayload {
  readonly ts: TimeMs
  readonly asks: BookSide
  readonly bids: BookSide
  readonly extra: Extra
}
/** `sizes` are the visible (non-RPI) part of each level, `rpiSizes` the RPI part. */
export interface RpiOrderBookPayload {
  readonly ts: TimeMs
  readonly asks: RpiBookSide
  readonly bids: RpiBookSide
  readonly extra: Extra
}
