import { type Expression, expressionBuilder, type RawBuilder, sql, type SqlBool } from 'kysely'
import { type CandleSeries, type CandleType, type Interval, intervalMs } from '../market/candle.js'
import { type Category, type InstrumentKey, isTradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import { minuteMs } from '../market/values.js'
import type { Database, SeriesColumns } from './schema.js'

/** A stream of an instrument, with type and interval for candles. Coverage and gaps are kept for each series. */
export interface Series {
  readonly stream: StreamName
  readonly category: Category
  readonly symbol: string
  /** Type of the candles. Both fields are null for other streams. */
  readonly type: CandleType | null
  readonly interval: Interval | null
}

export function candleStream({ category, symbol, type, interval }: CandleSeries): Series {
  return { stream: 'candles', category, symbol, type, interval }
}

/** Returns a series without type and interval, such as the fills of an instrument. */
export function instrumentStream(stream: StreamName, { category, symbol }: InstrumentKey): Series {
  return { stream, category, symbol, type: null, interval: null }
}

/** Returns a series of candles without its stream; null for other streams. */
export function candlesOf({ stream, category, symbol, type, interval }: Series): CandleSeries | null {
  if (stream !== 'candles' || type === null || interval === null || !isTradedCategory(category)) return null
  return { category, symbol, type, interval }
}

/** Returns the length of a row of a series in milliseconds. Rows with times of their own count as a minute. */
export function rowMs({ interval }: Series): number {
  return interval === null ? minuteMs : intervalMs[interval]
}

export function streamText({ stream, category, symbol, type, interval }: Series): string {
  return [category, symbol, ...(type === null || interval === null ? [stream] : [type, interval])].join(' ')
}

/** Returns the columns of schema `recorder` that name a series. Empty text stands for null, which a key cannot hold. */
export function seriesColumns({ stream, category, symbol, type, interval }: Series): SeriesColumns {
  return { stream, category, symbol, type: type ?? '', interval: interval ?? '' }
}

/** Returns the series that these columns name. */
export function seriesOf({ stream, category, symbol, type, interval }: SeriesColumns): Series {
  return {
    stream,
    category,
    symbol,
    type: type === '' ? null : type,
    interval: interval === '' ? null : interval,
  }
}

// The conditions below select rows of tables with a series in the key. `alias` names the table of several.

const eb = expressionBuilder<Database>()

/** The columns that name a series. */
export const keyColumns = [
  { name: 'stream', kind: 'text' },
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'type', kind: 'text' },
  { name: 'interval', kind: 'text' },
] as const

/** Returns the values of `keyColumns` for a series, in their order. */
export function seriesValues(series: Series): string[] {
  const values = seriesColumns(series)
  return keyColumns.map(({ name }) => values[name])
}

/** Returns a condition for the rows of a series, in a table with a column for the stream. */
export function ofSeries(series: Series, alias?: string): Expression<SqlBool> {
  return areEqual(seriesColumns(series), alias)
}

/** Returns a condition for the rows of a series of candles, in a table that holds only candles. */
export function ofCandles({ category, symbol, type, interval }: CandleSeries, alias?: string): Expression<SqlBool> {
  return areEqual({ category, symbol, type, interval }, alias)
}

/** Returns a condition for the rows of an instrument. */
export function ofInstrument({ category, symbol }: InstrumentKey, alias?: string): Expression<SqlBool> {
  return areEqual({ category, symbol }, alias)
}

/** Returns a condition for rows of the same series in two tables with a column for the stream. */
export function sameSeries(a: string, b: string): Expression<SqlBool> {
  return eb.and(keyColumns.map(({ name }) => eb(column(name, a), '=', column(name, b))))
}

function areEqual(values: object, alias: string | undefined): Expression<SqlBool> {
  return eb.and(Object.entries(values).map(([name, value]) => eb(column(name, alias), '=', value as string)))
}

function column(name: string, alias: string | undefined): RawBuilder<string> {
  return sql.ref(alias === undefined ? name : `${alias}.${name}`)
}
