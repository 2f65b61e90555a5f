import type { InstrumentKind } from './instrument.js'
import type { InstrumentKey, TradedCategory } from './category.js'
import type { RowOf } from './stream.js'
import { oneLine } from './oneLine.js'
import type { Decimal, ServiceMs } from './values.js'
import { createHash } from 'node:crypto'

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

/** Largest part of a row's text that is kept, in bytes. A digest stands for the whole text. */
const maxRawBytes = 4_096

/** A row of a response that could not be understood completely. It is kept so that the cause can be found. */
export interface RejectedRow {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
  readonly reason: string
  /** The start of the row's JSON text, at most 4,096 bytes, with numbers as they were sent. */
  readonly raw: string
  /** SHA-256 of the whole text, in hexadecimal digits. */
  readonly rawSha256: string
  /** Length of the whole text in bytes. */
  readonly rawBytes: number
  /** The row was stored without the part that could not be understood, or that is beyond a bound. */
  readonly isRowStored?: true
}

interface Request {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
}

/** Keeps the start of a row's text, with the digest and length of the whole. No row takes much space then. */
export function rejectedRow({ operation, parameters }: Request, reason: string, text: string | Buffer): RejectedRow {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  return {
    operation,
    parameters,
    reason: oneLine(reason),
    raw: startOf(bytes),
    rawSha256: createHash('sha256').update(bytes).digest('hex'),
    rawBytes: bytes.length,
  }
}

/** Returns the start of a text, cut between two characters, without NUL, which no text of the database can hold. */
function startOf(bytes: Buffer): string {
  let end = Math.min(bytes.length, maxRawBytes)
  while (end < bytes.length && ((bytes[end] as number) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end).replaceAll('\0', '\ufffd')
}
