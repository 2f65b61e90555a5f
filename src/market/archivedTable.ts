/** Tables of schema `market` that can be archived. */
export const archivedTableNames = [
  'fills',
  'candles',
  'order_books',
  'rpi_order_books',
  'tickers',
  'instruments',
  'instrument_history',
  'rpi_symbols',
] as const
export type ArchivedTableName = (typeof archivedTableNames)[number]
