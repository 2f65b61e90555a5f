/** What is recorded, each named as the table that holds it. */
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
