import {
  categories,
  type Category,
  futuresCategories,
  type FuturesCategory,
  tradedCategories,
  type TradedCategory,
} from './category.js'
import type { Operation } from './operation.js'
import type { Extra, FieldType, MachineMs, RowFields, ServiceMs } from './values.js'

/** How a table is kept that grows with time. */
interface TableTraits {
  readonly timeColumn: 'ts' | 'open_time'
  /** Columns of the key before the time. The columnstore keeps rows with equal values in them together. */
  readonly seriesColumns: readonly string[]
  /** The other columns of the key: the time, and those that tell rows of the same time apart. */
  readonly orderColumns: readonly string[]
  /**
   * Length of a chunk: the newest chunks of a whole market fit into memory. Those of books are longer where few come, see
   * `readStorage`.
   */
  readonly chunkHours: number
  readonly columnstoreAfterHours: number
}

interface StreamTraits {
  /** The operation that requests the stream. */
  readonly operation: Operation
  /** The stream's group of options in `streams`, and in `storage` if its table grows with time. */
  readonly options: string
  /** The stream's name for people. */
  readonly title: string
  /** `list` if a response is true until the next one comes. Otherwise each row has a time of its own. */
  readonly table: 'list' | TableTraits
  /** Fields of rows besides category, symbol, `ts`, `receivedAt` and `extra`. They give the columns their names. */
  readonly fields?: Readonly<Record<string, FieldType>>
  /** Fields of the key of a row in a list, besides category and symbol. A change of another field opens a new version. */
  readonly keyFields?: readonly string[]
  /** Fields that change with nearly every response, and therefore open no version. */
  readonly moving?: readonly string[]
  /** True if the service gives the same rows again later. */
  readonly isRepeatable: boolean
  /** Coverage proves which times are complete, so that missing rows are known. */
  readonly isProven?: true
  /** Only futures have the stream. It covers the futures on the lists of instruments, which may be none. */
  readonly isOfFutures?: true
}

/** Every specified field of a ticker besides its key and times, by the kind of value it holds. */
export const tickerFields = {
  lastPrice: 'decimal?',
  bid1Price: 'decimal?',
  bid1Size: 'amount?',
  ask1Price: 'decimal?',
  ask1Size: 'amount?',
  openPrice24h: 'decimal?',
  highPrice24h: 'decimal?',
  lowPrice24h: 'decimal?',
  volume24h: 'amount?',
  turnover24h: 'amount?',
  price24hPcnt: 'decimal?',
  indexPrice: 'decimal?',
  markPrice: 'decimal?',
  fundingRate: 'decimal?',
  openInterest: 'amount?',
  deliveryStartTime: 'time?',
  deliveryTime: 'time?',
  deliveryStatus: 'text?',
  platformTurnover24h: 'amount?',
} as const satisfies Record<string, FieldType>

const momentsOf = { timeColumn: 'ts', seriesColumns: ['category', 'symbol'], orderColumns: ['ts'] } as const
const bookFields = { bidPrices: 'decimals', bidSizes: 'decimals', askPrices: 'decimals', askSizes: 'decimals' } as const

/** Traits of the streams whose rows are periods of five minutes. They share options, because users want all of them. */
const ofPositioning = {
  options: 'positioning',
  table: { ...momentsOf, chunkHours: 168, columnstoreAfterHours: 192 },
  isRepeatable: true,
  isOfFutures: true,
} as const
/** Traits of the streams whose lists rarely change. */
const ofTerms = { options: 'futuresTerms', table: 'list', isRepeatable: true, isOfFutures: true } as const
const shareFields = { longShare: 'amount', shortShare: 'amount', longShortRatio: 'amount?' } as const

/** The streams that are recorded, each named as the table that holds it. */
export const streamTraits = {
  instruments: {
    operation: 'instruments',
    options: 'instruments',
    title: 'Instruments',
    table: 'list',
    isRepeatable: true,
  },
  rpi_symbols: {
    operation: 'rpi-symbols',
    options: 'rpiSymbols',
    title: 'RPI symbols',
    table: 'list',
    isRepeatable: true,
  },
  tickers: {
    operation: 'tickers',
    options: 'tickers',
    title: 'Tickers',
    table: { ...momentsOf, chunkHours: 24, columnstoreAfterHours: 48 },
    fields: tickerFields,
    isRepeatable: false,
  },
  order_books: {
    operation: 'orderbook',
    options: 'orderBooks',
    title: 'Order books',
    table: { ...momentsOf, chunkHours: 24, columnstoreAfterHours: 24 },
    fields: bookFields,
    isRepeatable: false,
  },
  rpi_order_books: {
    operation: 'rpi-orderbook',
    options: 'rpiOrderBooks',
    title: 'RPI order books',
    table: { ...momentsOf, chunkHours: 24, columnstoreAfterHours: 24 },
    fields: { ...bookFields, bidRpiSizes: 'decimals', askRpiSizes: 'decimals' },
    isRepeatable: false,
  },
  fills: {
    operation: 'fills',
    options: 'fills',
    title: 'Fills',
    table: { ...momentsOf, orderColumns: ['ts', 'exec_id'], chunkHours: 24, columnstoreAfterHours: 72 },
    fields: {
      execId: 'text',
      execLinkId: 'text?',
      side: 'side',
      price: 'decimal',
      size: 'amount',
      isRpi: 'boolean?',
    },
    isRepeatable: false,
    isProven: true,
  },
  candles: {
    operation: 'candles',
    options: 'candles',
    title: 'Candles',
    table: {
      timeColumn: 'open_time',
      seriesColumns: ['category', 'symbol', 'type', 'interval'],
      orderColumns: ['open_time'],
      chunkHours: 168,
      columnstoreAfterHours: 336,
    },
    isRepeatable: true,
    isProven: true,
  },
  funding_rates: {
    operation: 'history-fund-rate',
    options: 'fundingRates',
    title: 'Funding rates',
    table: { ...momentsOf, chunkHours: 720, columnstoreAfterHours: 1440 },
    fields: { fundingRate: 'decimal', intervalHours: 'integer?' },
    isRepeatable: true,
    isProven: true,
    isOfFutures: true,
  },
  funding_forecasts: {
    operation: 'current-fund-rate',
    options: 'fundingForecasts',
    title: 'Funding forecasts',
    table: { ...momentsOf, chunkHours: 168, columnstoreAfterHours: 192 },
    fields: {
      fundingRate: 'decimal',
      intervalHours: 'integer?',
      nextUpdate: 'time?',
      minRate: 'decimal?',
      maxRate: 'decimal?',
    },
    isRepeatable: false,
    isOfFutures: true,
  },
  liquidations: {
    operation: 'liquidations',
    options: 'liquidations',
    title: 'Liquidations',
    table: {
      ...momentsOf,
      orderColumns: ['ts', 'side', 'price', 'amount', 'occurrence'],
      chunkHours: 720,
      columnstoreAfterHours: 168,
    },
    // `occurrence` numbers equal liquidations, because they have no id.
    fields: { side: 'side', price: 'decimal', amount: 'amount', occurrence: 'integer' },
    isRepeatable: true,
    isProven: true,
    isOfFutures: true,
  },
  taker_flow: {
    operation: 'futures-active-buy-sell',
    title: 'Taker flow',
    fields: { buyVolume: 'amount', sellVolume: 'amount' },
    ...ofPositioning,
  },
  long_short_ratios: {
    operation: 'futures-long-short',
    title: 'Long/short ratios',
    fields: shareFields,
    ...ofPositioning,
  },
  long_short_accounts: {
    operation: 'futures-account-long-short',
    title: 'Long/short accounts',
    fields: shareFields,
    ...ofPositioning,
  },
  long_short_positions: {
    operation: 'futures-position-long-short',
    title: 'Long/short positions',
    fields: shareFields,
    ...ofPositioning,
  },
  index_components: {
    operation: 'index-components',
    title: 'Index components',
    fields: { exchange: 'text', spotPair: 'text', weight: 'amount', equivalentPrice: 'decimal?' },
    keyFields: ['exchange', 'spotPair'],
    moving: ['equivalentPrice'],
    ...ofTerms,
  },
} as const satisfies Readonly<Record<string, StreamTraits>>

type Traits = typeof streamTraits
export type StreamName = keyof Traits
export const streamNames = Object.keys(streamTraits) as readonly StreamName[]

/** Makes a value for each stream. */
export function byStream<Value>(make: (name: StreamName) => Value): Record<StreamName, Value> {
  return Object.fromEntries(streamNames.map((name) => [name, make(name)])) as Record<StreamName, Value>
}

/** Returns true if it is known what is missing of a stream. */
export function isProven(name: StreamName): boolean {
  return 'isProven' in streamTraits[name]
}

/** Returns true if only futures have rows of a stream. */
export function isOfFutures(name: StreamName): boolean {
  return 'isOfFutures' in streamTraits[name]
}

/** Returns the categories that may have rows of a stream. */
export function categoriesOf(name: StreamName): readonly Category[] {
  if (name === 'instruments') return categories
  return isOfFutures(name) ? futuresCategories : tradedCategories
}

/** Streams whose tables grow with time. */
export type TimeStream = { [Name in StreamName]: Traits[Name]['table'] extends 'list' ? never : Name }[StreamName]
export const timeStreams = streamNames.filter((name): name is TimeStream => streamTraits[name].table !== 'list')

/** A table of schema `market` that grows with time. */
export interface TimeTable extends TableTraits {
  readonly name: TimeStream
}
export const timeTables: readonly TimeTable[] = timeStreams.map((name) => ({ name, ...streamTraits[name].table }))

/** Streams that declare the fields of their rows. */
export type FieldStream = {
  [Name in StreamName]: Traits[Name] extends { readonly fields: object } ? Name : never
}[StreamName]
export const fieldStreams = streamNames.filter((name): name is FieldStream => 'fields' in streamTraits[name])
export type FieldsOf<Name extends FieldStream> = Traits[Name]['fields']

/** A row as its stream declares it. */
export type RowOf<Name extends FieldStream> = {
  readonly category: Traits[Name] extends { readonly isOfFutures: true } ? FuturesCategory : TradedCategory
  readonly symbol: string
  readonly ts: ServiceMs
  readonly receivedAt: MachineMs
  readonly extra: Extra
} & RowFields<FieldsOf<Name>>

/** Streams of lists whose rows are kept by their versions. */
export type VersionStream = { [Name in FieldStream]: Traits[Name]['table'] extends 'list' ? Name : never }[FieldStream]

/** Returns true if the rows of a stream are kept by their versions. */
export function isOfVersions(name: StreamName): name is VersionStream {
  return 'keyFields' in streamTraits[name]
}

/** Streams whose rows prove nothing about the time between them. */
export type MomentStream = {
  [Name in FieldStream]: Traits[Name] extends { readonly isProven: true } ? never : Exclude<Name, VersionStream>
}[FieldStream]

/** The tables of schema `market`, in the order of the documentation. */
export const marketTables = [
  'instruments',
  'instrument_history',
  ...streamNames.filter((name) => name !== 'instruments'),
] as const satisfies readonly (StreamName | 'instrument_history')[]
export type MarketTable = StreamName | 'instrument_history'
