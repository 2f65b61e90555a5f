/**
 * The service's public market-data operations, by the last part of their path. Those from the history of fills
 * on lie beside the specification: a service may lack them.
 */
export const operations = [
  'instruments',
  'rpi-symbols',
  'tickers',
  'orderbook',
  'rpi-orderbook',
  'fills',
  'candles',
  'history-candles',
  'futures-fills-history',
  'spot-fills-history',
  'history-fund-rate',
  'current-fund-rate',
  'liquidations',
] as const
export type Operation = (typeof operations)[number]

/** The streams that are recorded, each named as the table that holds it. */
export const streamNames = [
  'instruments',
  'rpi_symbols',
  'tickers',
  'order_books',
  'rpi_order_books',
  'fills',
  'candles',
] as const
export type StreamName = (typeof streamNames)[number]

/** The operation that a stream is asked for by. */
export const operationOf = {
  instruments: 'instruments',
  rpi_symbols: 'rpi-symbols',
  tickers: 'tickers',
  order_books: 'orderbook',
  rpi_order_books: 'rpi-orderbook',
  fills: 'fills',
  candles: 'candles',
} as const satisfies Record<StreamName, Operation>
