import { streamTraits, type TimeStream, timeStreams } from '../market/stream.js'

/** A table of schema `market` that grows with time. */
export interface TimeTable {
  readonly name: TimeStream
  readonly timeColumn: 'ts' | 'open_time'
  /** Columns of the key before the time: rows that agree in them are stored together in the columnstore. */
  readonly seriesColumns: readonly string[]
  /** The other columns of the key. Each column of the key must be in one of the two lists. */
  readonly orderColumns: readonly string[]
}

export const timeTables: readonly TimeTable[] = timeStreams.map((name) => {
  const { series, time, after } = streamTraits[name].table
  return { name, timeColumn: time, seriesColumns: series, orderColumns: [time, ...after] }
})

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
