import type { Candle, CandleSeries } from '../market/candle.js'
import type { Category, FuturesCategory, InstrumentKey, TradedCategory } from '../market/category.js'
import type { Fill, RejectedRow } from '../market/rows.js'
import { isProven, type StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import { largest, type MachineMs, serviceMs, type ServiceMs, smallest } from '../market/values.js'

/** Everything that one response brings to the database. It is plain data, so that it can wait on disk. */
export interface Batch<Target = unknown, Row = unknown> {
  readonly stream: StreamName
  readonly target: Target
  readonly requestTime: ServiceMs
  readonly receivedAt: MachineMs
  readonly rows: readonly Row[]
  readonly rejected: readonly RejectedRow[]
  /** Number of rows of the response beyond a bound. They are counted, but neither stored nor kept as rejected. */
  readonly unkept?: number
  /**
   * Ranges between two candles that several joined pages leave out. Absent for a single response: its rows show them.
   */
  readonly silence?: readonly TimeRange[]
  /** True if the batch does not prove absence: rows of the response were dropped, or the list may be cut off. */
  readonly provesNothing?: boolean
  /**
   * What came before the response: the start of this recorder's work on the target, or a request without a response.
   * Absent after another response. It tells why rows are missing.
   */
  readonly after?: 'start' | 'failure'
}

/** A response with fills of an instrument. */
export type FillBatch = Batch<InstrumentKey, Fill>

/** Returns the number of rows of the response that are not stored, whether they are rejected or only counted. */
export function missingRows({ rejected, unkept = 0 }: Pick<Batch, 'rejected' | 'unkept'>): number {
  return unkept + rejected.filter(({ isRowStored }) => isRowStored !== true).length
}

/**
 * Returns the times of rows that are not stored, as far as they can be read and lie between those of the others. A time
 * outside of them may itself be the mistake in its row.
 */
export function unreadTimes(rejected: readonly RejectedRow[], times: readonly ServiceMs[]): ServiceMs[] {
  if (rejected.length === 0) return []
  const [oldest, newest] = [smallest(times), largest(times)]
  const lost = rejected.filter(({ isRowStored }) => isRowStored !== true)
  return lost.map(({ raw }) => timeInText(raw)).filter((ts) => ts >= oldest && ts <= newest)
}

/** Returns the time of a row that could not be understood; NaN where its text is cut, or names more than one. */
function timeInText(raw: string): ServiceMs {
  // A candle is a list that begins with its time.
  const [name = '"0"', ...others] = raw.match(/"(?:ts|fundingRateTimestamp|openTime)"/g) ?? []
  try {
    const row = JSON.parse(raw) as Readonly<Record<string, unknown>>
    const time = others.length > 0 ? '' : String(row[name.slice(1, -1)])
    return serviceMs(/^\d{13}$/.test(time) ? Number(time) : Number.NaN)
  } catch {
    return serviceMs(Number.NaN)
  }
}

/**
 * Returns true if the batch holds a whole list, so that an instrument that is not on it has disappeared. An empty list
 * counts as a fault of the service, because trading never ends for all instruments.
 */
export function isWholeList(batch: Pick<Batch, 'rows' | 'rejected' | 'unkept' | 'provesNothing'>): boolean {
  return batch.rows.length > 0 && missingRows(batch) === 0 && !batch.provesNothing
}

/**
 * Leaves out rows that retention would remove, if the stream has coverage. They would fall on days that are already
 * archived. The newest old fill stays, because it proves that nothing else was traded after it.
 *
 * @param keptMs how long the table of the stream keeps rows; null: for ever
 */
export function withoutOldRows<Target, Row>(batch: Batch<Target, Row>, keptMs: number | null): Batch<Target, Row> {
  if (keptMs === null || !isProven(batch.stream)) return batch
  const timeOf = (row: Row) =>
    batch.stream === 'candles' ? (row as Candle).openTime : (row as { readonly ts: ServiceMs }).ts
  // Uses the earlier of the two clocks, so that a clock that is ahead does not remove rows.
  const before = Math.min(batch.requestTime, batch.receivedAt) - keptMs
  const old = batch.rows.map(timeOf).filter((time) => time < before)
  if (old.length === 0) return batch
  const mark = batch.stream === 'fills' ? largest(old) : Infinity
  return { ...batch, rows: batch.rows.filter((row) => timeOf(row) >= before || timeOf(row) === mark) }
}

/** Names the series of a batch. Batches with the same key must be stored in their order. */
export function seriesKey({ stream, target }: Batch): string {
  const { category, symbol, type, interval } = target as Record<string, unknown>
  return [stream, category, symbol, type, interval].join(' ')
}

/** Each stream requests one kind of target, such as a category or a future. A batch names its target, on disk, too. */
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
  /** Number of newest candles to request. */
  readonly limit: number
}
