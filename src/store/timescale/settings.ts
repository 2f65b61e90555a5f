/** What of the configuration concerns how a table is kept. */
export interface TableSettings {
  /** Time span of one chunk, hours. */
  readonly chunkHours: number
  /** Age at which chunks become columnar, hours. */
  readonly columnstoreAfterHours: number
  /** Age at which rows are removed, days; without it they stay. */
  readonly retentionDays?: number
  /** Whether rows are removed by the archiver alone, when they are in the archive. Default false. */
  readonly isArchived?: boolean
}

export interface StorageSettings {
  readonly tickers: TableSettings
  readonly orderBooks: TableSettings
  readonly rpiOrderBooks: TableSettings
  readonly fills: TableSettings
  readonly candles: TableSettings
  readonly rejectedRows: {
    /** Age at which rows that could not be understood are removed, days since they were last seen. */
    readonly retentionDays: number
  }
}

/** A table that grows with time. */
export interface TimeTable {
  readonly setting: Exclude<keyof StorageSettings, 'rejectedRows'>
  /** In schema `market`. */
  readonly name: string
  readonly timeColumn: string
  /** Columns of the key before the time: rows that agree in them are stored together in the columnstore. */
  readonly seriesColumns: readonly string[]
  /** The rest of the key, so that no part of it is outside of both lists. */
  readonly orderColumns: readonly string[]
}

const instrument = ['category', 'symbol']

export const timeTables: readonly TimeTable[] = [
  { setting: 'tickers', name: 'tickers', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts'] },
  { setting: 'orderBooks', name: 'order_books', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts'] },
  {
    setting: 'rpiOrderBooks',
    name: 'rpi_order_books',
    timeColumn: 'ts',
    seriesColumns: instrument,
    orderColumns: ['ts'],
  },
  { setting: 'fills', name: 'fills', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts', 'exec_id'] },
  {
    setting: 'candles',
    name: 'candles',
    timeColumn: 'open_time',
    seriesColumns: [...instrument, 'type', 'interval'],
    orderColumns: ['open_time'],
  },
]
