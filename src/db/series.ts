import { type Expression, expressionBuilder, type RawBuilder, sql, type SqlBool } from 'kysely'
import { type CandleSeries, type CandleType, type Interval, intervalMs, seriesText } from '../market/candle.js'
import { type InstrumentKey, isTradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import { minuteMs } from '../market/values.js'
import { adding } from '../../migrations/relations.js'

/** A stream of an instrument, as columns of schema `recorder` name it. Coverage and gaps are kept for each series. */
export interface Series extends InstrumentKey {
  readonly stream: StreamName
  /** Type and interval of candles. Both are empty for other streams, because a key cannot hold null. */
  readonly type: CandleType | ''
  readonly interval: Interval | ''
}

export function candleStream({ category, symbol, type, interval }: CandleSeries): Series {
  return { stream: 'candles', category, symbol, type, interval }
}

/** Returns a series without type and interval, such as the fills of an instrument. */
export function instrumentStream(stream: StreamName, { category, symbol }: InstrumentKey): Series {
  return { stream, category, symbol, type: '', interval: '' }
}

/** Returns a series of candles without its stream; null for other streams. */
export function candlesOf({ stream, category, symbol, type, interval }: Series): CandleSeries | null {
  if (stream !== 'candles' || type === '' || interval === '' || !isTradedCategory(category)) return null
  return { category, symbol, type, interval }
}

/** Returns the length of a row of a series in milliseconds. Rows with times of their own count as a minute. */
export function rowMs({ interval }: Series): number {
  return interval === '' ? minuteMs : intervalMs[interval]
}

export function streamText(series: Series): string {
  const candles = candlesOf(series)
  return candles === null ? `${series.category} ${series.symbol} ${series.stream}` : seriesText(candles)
}

/** Returns the series that a row names. */
export function seriesOf({ stream, category, symbol, type, interval }: Series): Series {
  return { stream, category, symbol, type, interval }
}

// The conditions below select rows of tables with a series in the key. `alias` names the table of several.

const eb = expressionBuilder<object>()

/** The columns that name a series. */
export const keyColumns = [
  { name: 'stream', kind: 'text' },
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'type', kind: 'text' },
  { name: 'interval', kind: 'text' },
] as const

/** End of a statement that adds ranges to known ones of the same series. The statement must name its table `k`. */
export const addingRanges = sql.raw(adding)

/** Returns the values of `keyColumns` for a series, in their order. */
export function seriesValues(series: Series): string[] {
  return keyColumns.map(({ name }) => series[name])
}

/** Returns a condition for the rows of a series, in a table with a column for the stream. */
export function ofSeries(series: Series, alias?: string): Expression<SqlBool> {
  return areEqual(seriesOf(series), alias)
}

/** Returns a condition for the rows of a series of candles, in a table that holds only candles. */
export function ofCandles({ category, symbol, type, interval }: CandleSeries, alias?: string): Expression<SqlBool> {
  return areEqual({ category, symbol, type, interval }, alias)
}

/** Returns a condition for the rows of an instrument. */
export function ofInstrument({ category, symbol }: InstrumentKey): Expression<SqlBool> {
  return areEqual({ category, symbol })
}

/** Returns a condition for rows of the same series in two tables with a column for the stream. */
export function sameSeries(a: string, b: string): Expression<SqlBool> {
  return eb.and(keyColumns.map(({ name }) => eb(column(name, a), '=', column(name, b))))
}

function areEqual(values: object, alias?: string): Expression<SqlBool> {
  return eb.and(Object.entries(values).map(([name, value]) => eb(column(name, alias), '=', value as string)))
}

function column(name: string, alias: string | undefined): RawBuilder<string> {
  return sql.ref(alias === undefined ? name : `${alias}.${name}`)
}

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
