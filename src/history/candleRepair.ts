import type { Kysely } from 'kysely'
import { type CandleSeries, gridOf, intervalMs, seriesText, withCandles } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { missingCandles, type SeriesRange, settleGaps } from '../ledger/missing.js'
import { candlesOf, candleStream } from '../db/series.js'
import { insertWants, type NewWant, repairAttempts } from '../ledger/wants.js'
import { listGaps, recordGap } from '../ledger/gaps.js'
import { isSparse } from '../ledger/noTrade.js'
import type { Database } from '../db/schema.js'
import { isDueAgain, repairOf } from './repair.js'

interface RepairOptions {
  readonly db: Kysely<Database>
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** When the last live response for a series came. Without it, a series that ends early always counts as behind. */
  readonly respondedAt?: (series: CandleSeries) => TimeMs | undefined
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
}

/** Gaps older than this are not repaired. A backfill of their range fills them. */
const lookbackMs = 7 * dayMs

/**
 * Looks for gaps in the recorded candles, and has them filled before any backfill. A restart or an outage leaves a gap
 * between two covered ranges. Overdue candles after the last covered range are a gap, too.
 */
export async function repairCandles(options: RepairOptions): Promise<void> {
  const { db, series, clock, logger } = options
  const now = clock.now()
  // Live candles may have filled open gaps already.
  for (const gap of await openCandleSeries(db)) await settleGaps(db, gap)
  const due: NewWant[] = []
  for (const gaps of await findGaps(db, series(), now, options)) {
    const [first] = gaps.missing
    if (first === undefined || !isDueAgain(await repairAttempts(db, candleStream(gaps.series), first), now)) continue
    // A sparse series may have had no trade there, so no gap is recorded before the service responds.
    for (const range of (await isSparse(db, gaps.series)) ? [] : gaps.missing) {
      const reason = 'not recorded: the recorder or the service was away'
      await recordGap(db, { ...candleStream(gaps.series), range, reason })
    }
    due.push({ ...repairOf(candleStream(gaps.series), gaps.missing), floor: now - lookbackMs })
  }
  await insertWants(db, due)
  if (due.length > 0) logger.info(`repair: ${due.length} series have gaps; they are being filled`)
}

/** Finds gaps of the last days: between covered ranges, and after the last one if its next candles are overdue. */
export async function findGaps(
  db: Kysely<Database>,
  series: readonly CandleSeries[],
  now: TimeMs,
  { settleMs, respondedAt }: Pick<RepairOptions, 'settleMs' | 'respondedAt'>,
): Promise<{ readonly series: CandleSeries; readonly missing: readonly TimeRange[] }[]> {
  const from = now - lookbackMs
  const requested: SeriesRange[] = series.map((one) => {
    const lengthMs = intervalMs[one.interval]
    return { series: one, range: { from, to: Math.max(from, Math.floor((now - settleMs) / lengthMs) * lengthMs) } }
  })
  const known = await missingCandles(db, requested, { leaveOutAskedLately: true })
  return known.flatMap(({ series: one, range, missing, oldestKnown }) => {
    // A series without any known candle was never recorded, so it has no gap.
    if (oldestKnown === null) return []
    const lastResponseAt = respondedAt?.(one) ?? Number.NEGATIVE_INFINITY
    // Live responses came later and showed no newer candle. Probably nothing was traded; the next candle will show it.
    const isQuiet = (since: TimeMs) => one.type === 'market' && lastResponseAt >= since + overdueMs + settleMs
    const isOverdue = (gap: TimeRange) => gap.to - gap.from > overdueMs && !isQuiet(gap.from)
    const after = missing.filter(
      (gap) => gap.from > oldestKnown && gap.from > range.from && (gap.to < range.to || isOverdue(gap)),
    )
    const gaps = withCandles(gridOf(one.interval, oldestKnown), after)
    return gaps.length === 0 ? [] : [{ series: one, missing: gaps }]
  })
}

/** The live streams have this long to catch up at the end of the coverage. */
const overdueMs = 10 * 60_000

/** Resolves to the series of candles that have open gaps. */
async function openCandleSeries(db: Kysely<Database>): Promise<CandleSeries[]> {
  const series = new Map<string, CandleSeries>()
  for (const gap of await listGaps(db, { state: 'open', stream: 'candles' })) {
    const one = candlesOf(gap)
    if (one !== null) series.set(seriesText(one), one)
  }
  return [...series.values()]
}
