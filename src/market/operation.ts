/** The service's public market-data operations, by the last part of their path. */
export const operations = [
  'instruments',
  'rpi-symbols',
  'tickers',
  'orderbook',
  'rpi-orderbook',
  'fills',
  'candles',
  'history-candles',
] as const
export type Operation = (typeof operations)[number]
