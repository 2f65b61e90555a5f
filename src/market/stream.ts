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

/** A table that grows with time. */
interface TimeTableShape {
  /** Columns of the key before the time: rows that agree in them are stored together in the columnstore. */
  readonly series: readonly string[]
  readonly time: 'ts' | 'open_time'
  /** The rest of the key. */
  readonly after: readonly string[]
}

interface StreamTraits {
  /** The operation that it is requested by. */
  readonly operation: Operation
  /** Its group of options in `streams`, and in `storage` where its table grows with time. */
  readonly options: string
  /** Its name for people. */
  readonly title: string
  /** A list that holds what is true until the next one comes, or rows of a moment each. */
  readonly table: 'list' | TimeTableShape
  /** The service can be asked for the same rows again. */
  readonly isRepeatable: boolean
}

const momentsOf = { series: ['category', 'symbol'], time: 'ts', after: [] } as const
const repeatable = { isRepeatable: true } as const
const unrepeatable = { isRepeatable: false } as const

/** The streams that are recorded, each named as the table that holds it. */
export const streamTraits = {
  instruments: {
    operation: 'instruments',
    options: 'instruments',
    title: 'Instruments',
    table: 'list',
    ...repeatable,
  },
  rpi_symbols: { operation: 'rpi-symbols', options: 'rpiSymbols', title: 'RPI symbols', table: 'list', ...repeatable },
  tickers: { operation: 'tickers', options: 'tickers', title: 'Tickers', table: momentsOf, ...unrepeatable },
  order_books: {
    operation: 'orderbook',
    options: 'orderBooks',
    title: 'Order books',
    table: momentsOf,
    ...unrepeatable,
  },
  rpi_order_books: {
    operation: 'rpi-orderbook',
    options: 'rpiOrderBooks',
    title: 'RPI order books',
    table: momentsOf,
    ...unrepeatable,
  },
  fills: {
    operation: 'fills',
    options: 'fills',
    title: 'Fills',
    table: { ...momentsOf, after: ['exec_id'] },
    ...unrepeatable,
  },
  candles: {
    operation: 'candles',
    options: 'candles',
    title: 'Candles',
    table: { series: ['category', 'symbol', 'type', 'interval'], time: 'open_time', after: [] },
    ...repeatable,
  },
  funding_rates: {
    operation: 'history-fund-rate',
    options: 'fundingRates',
    title: 'Funding rates',
    table: momentsOf,
    ...repeatable,
  },
  funding_forecasts: {
    operation: 'current-fund-rate',
    options: 'fundingForecasts',
    title: 'Funding forecasts',
    table: momentsOf,
    ...unrepeatable,
  },
  liquidations: {
    operation: 'liquidations',
    options: 'liquidations',
    title: 'Liquidations',
    table: { ...momentsOf, after: ['side', 'price', 'amount', 'occurrence'] },
    ...repeatable,
  },
} as const satisfies Readonly<Record<string, StreamTraits>>

export type StreamName = keyof typeof streamTraits
export const streamNames = Object.keys(streamTraits) as readonly StreamName[]

/** Streams whose tables grow with time. */
export type TimeStream = {
  [Name in StreamName]: (typeof streamTraits)[Name]['table'] extends 'list' ? never : Name
}[StreamName]
export const timeStreams = streamNames.filter((name): name is TimeStream => streamTraits[name].table !== 'list')

/** The tables of schema `market`, in the order in which people want to read about them. */
export const marketTables = [
  'instruments',
  'instrument_history',
  ...streamNames.filter((name) => name !== 'instruments'),
] as const satisfies readonly (StreamName | 'instrument_history')[]
export type MarketTable = StreamName | 'instrument_history'
