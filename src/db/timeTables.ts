import type { StreamName } from '../market/stream.js'

/** Names of the streams whose tables grow with time. */
export type TimeTableName = Extract<StreamName, 'tickers' | 'order_books' | 'rpi_order_books' | 'fills' | 'candles'>

/** A table of schema `market` that grows with time. */
export interface TimeTable {
  readonly name: TimeTableName
  readonly timeColumn: 'ts' | 'open_time'
  /** Columns of the key before the time: rows that agree in them are stored together in the columnstore. */
  readonly seriesColumns: readonly string[]
  /** The rest of the key, so that no part of it is outside of both lists. */
  readonly orderColumns: readonly string[]
}

const instrument = ['category', 'symbol']

export const timeTables: readonly TimeTable[] = [
  { name: 'tickers', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts'] },
  { name: 'order_books', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts'] },
  { name: 'rpi_order_books', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts'] },
  { name: 'fills', timeColumn: 'ts', seriesColumns: instrument, orderColumns: ['ts', 'exec_id'] },
  {
    name: 'candles',
    timeColumn: 'open_time',
    seriesColumns: [...instrument, 'type', 'interval'],
    orderColumns: ['open_time'],
  },
]

/**
 * Returns two parts of a statement. `series` belongs after WITH RECURSIVE and goes from one series to the next in the
 * key. A plain table needs that, because it has no index on the time alone. `keyOf` lists the columns of the series in
 * the row of an alias.
 */
export function seriesByKey({
  name,
  seriesColumns,
}: {
  readonly name: string
  readonly seriesColumns: readonly string[]
}): {
  readonly series: string
  readonly keyOf: (alias: string) => string
} {
  const columns = seriesColumns.join(', ')
  const keyOf = (alias: string) => seriesColumns.map((column) => `${alias}.${column}`).join(', ')
  return {
    keyOf,
    series: `series as (
      (select ${columns} from market.${name} order by ${columns} limit 1)
      union all
      select ${keyOf('next')} from series s cross join lateral (
        select ${keyOf('t')} from market.${name} t where (${keyOf('t')}) > (${keyOf('s')}) order by ${keyOf('t')} limit 1
      ) next
    )`,
  }
}
