import type { Candle, CandleSeries } from '../market/candle.js'
import type { Category, InstrumentKey, TradedCategory } from '../market/category.js'
import type { FuturesCategory } from '../market/funding.js'
import type { Fill } from '../market/rows.js'
import type { RejectedRow } from '../market/rejectedRow.js'
import { isProven, type StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'

/** A gap in what was recorded. */
export interface FoundGap extends InstrumentKey {
  /** `*` stands for all instruments of the category. */
  readonly symbol: string
  readonly range: TimeRange
  readonly reason: string
  /** `open` where the service still has what is missing. Default `lost`. */
  readonly state?: 'open' | 'lost'
}

/** Everything that one response of the service brings to the database. Plain data: it can wait on disk. */
export interface Batch<Target = unknown, Row = unknown> {
  readonly stream: StreamName
  readonly target: Target
  readonly requestTime: TimeMs
  readonly receivedAt: TimeMs
  readonly rows: readonly Row[]
  readonly rejected: readonly RejectedRow[]
  /** Rows of the response that are neither stored nor kept as rejected: beyond a bound, they are only counted. */
  readonly unkept?: number
  /** Rows of the response that came before all others, and are older than their table keeps. */
  readonly tooOld?: number
  /** The service has older rows on a further page. */
  readonly hasMore?: boolean
  /** What joined pages of candles left out between two candles. Of a single response, its rows show it. */
  readonly silence?: readonly TimeRange[]
  readonly gaps: readonly FoundGap[]
  /** The rows are only some of the response's: what is not among them has not disappeared. */
  readonly isPart: boolean
}

/** A response with fills of an instrument. */
export type FillBatch = Batch<InstrumentKey, Fill>

/** How many rows of the response are not among those to be stored. */
export function missingRows({ rejected, unkept = 0 }: Pick<Batch, 'rejected' | 'unkept'>): number {
  return unkept + rejected.filter(({ isRowStored }) => isRowStored !== true).length
}

/**
 * Returns true if entries that are not in the batch have disappeared. An empty list is taken for a fault of the
 * service, not for the end of trading.
 */
export function isWholeList(batch: Pick<Batch, 'rows' | 'rejected' | 'unkept' | 'isPart'>): boolean {
  return batch.rows.length > 0 && missingRows(batch) === 0 && !batch.isPart
}

/** Returns true if a batch has no rejected rows and no gaps, so that one insert stores all of it. */
export function isPlain({ rejected, unkept = 0, gaps, isPart }: Batch): boolean {
  return !isPart && rejected.length + unkept + gaps.length === 0
}

/**
 * Leaves out rows of streams with a past that would be removed for their age: they would come into days that the archive has. The newest of the
 * old fills stays, because from it on the response shows that nothing else was traded.
 *
 * @param keptMs how long the table of the stream keeps rows; null: for ever
 */
export function withoutOldRows<Target, Row>(batch: Batch<Target, Row>, keptMs: number | null): Batch<Target, Row> {
  if (keptMs === null || !isProven(batch.stream)) return batch
  const timeOf = (row: Row) =>
    batch.stream === 'candles' ? (row as Candle).openTime : (row as { readonly ts: TimeMs }).ts
  // The earlier of two clocks: rows are not to be lost to one that is ahead.
  const before = Math.min(batch.requestTime, batch.receivedAt) - keptMs
  const old = batch.rows.map(timeOf).filter((time) => time < before)
  if (old.length === 0) return batch
  const mark = batch.stream === 'fills' ? old.reduce((newest, time) => Math.max(newest, time)) : Infinity
  const rows = batch.rows.filter((row) => timeOf(row) >= before || timeOf(row) === mark)
  return { ...batch, rows, tooOld: batch.rows.length - rows.length }
}

/** Names what a batch is about; batches with the same key depend on each other's order. */
export function seriesKey({ stream, target }: Batch): string {
  const { category, symbol, type, interval } = target as Record<string, unknown>
  return [stream, category, symbol, type, interval].join(' ')
}

/** Subjects of requests, by stream. A batch keeps its target, also while it waits on disk. */
export interface CategoryTarget {
  readonly category: Category
}
export interface TradedCategoryTarget {
  readonly category: TradedCategory
}
export interface FuturesTarget {
  readonly category: FuturesCategory
}
export interface BookTarget {
  readonly category: TradedCategory
  readonly symbol: string
  readonly depth: number
}
export interface CandleTarget extends CandleSeries {
  readonly settleMs: number
  /** How many of the newest candles to ask for. */
  readonly limit: number
}
