import type { Kysely } from 'kysely'
import { type CandleSeries, seriesText, intervalMs } from '../market/candle.js'
import { gridOf, withCandles } from '../market/candleGrid.js'
import { isTradedCategory } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/backoff.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { missingCandles, type SeriesRange, settleGaps } from '../ledger/proof/missing.js'
import { candleStream } from '../db/series.js'
import { earlierRepairs, insertWants, type NewWant } from '../ledger/history/candleWants.js'
import { listGaps, recordGap } from '../ledger/proof/gaps.js'
import { isSparse } from '../ledger/proof/noTrade.js'
import type { Database } from '../db/schema.js'
import { type Routine, startRoutine } from './routine.js'

export interface RepairOptions {
  readonly db: Kysely<Database>
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** When the last live response for a series came; without, a series that ends early is always behind. */
  readonly respondedAt?: (series: CandleSeries) => TimeMs | undefined
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
  /** How often it looks for gaps. Default: once a minute. */
  readonly everyMs?: number
}

/** Older gaps are what nobody asked to have; a backfill of the range fills them. */
const lookbackMs = 7 * dayMs
/** A gap that stays although it was asked for is asked for again. */
const again: Backoff = { minMs: 60_000, maxMs: dayMs, factor: 10 }

/**
 * Looks for gaps in the candles that are recorded and has them filled, before any backfill: what a restart or an outage left out
 * between two stretches that are covered, and what should be there by now at the end of the last one.
 */
export function startRepair(options: RepairOptions): Routine {
  return startRoutine('repair', options, options.everyMs ?? 60_000, () => repairOnce(options))
}

async function repairOnce(options: RepairOptions): Promise<void> {
  const { db, series, clock, logger } = options
  const now = clock.now()
  // What live candles have filled by themselves.
  for (const gap of await openCandleSeries(db)) await settleGaps(db, gap)
  const due: NewWant[] = []
  for (const gaps of await findGaps(db, series(), now, options)) {
    const [first] = gaps.missing
    const { count, endedAt } =
      first === undefined ? { count: 0, endedAt: null } : await earlierRepairs(db, gaps.series, first)
    // An open one is in the making.
    if (count > 0 && (endedAt === null || now < endedAt + backoffMs(count, again))) continue
    // What is missing of a series that is silent for long may be no gap: that is for the response to tell.
    for (const range of (await isSparse(db, gaps.series)) ? [] : gaps.missing) {
      const reason = 'not recorded: the recorder or the service was away'
      await recordGap(db, { ...candleStream(gaps.series), range, reason })
    }
    const what = { kind: 'repair', again: false, isUrgent: false, hasOpenBeginning: false } as const
    due.push({ ...what, series: gaps.series, ranges: gaps.missing, floor: now - lookbackMs })
  }
  await insertWants(db, due)
  if (due.length > 0) logger.info(`repair: ${due.length} series have gaps; they are being filled`)
}

/** Gaps of the last days: between covered stretches, and after the last one when its next candles are overdue. */
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
    // What was never recorded is no gap.
    if (oldestKnown === null) return []
    const lastResponseAt = respondedAt?.(one) ?? Number.NEGATIVE_INFINITY
    // Responses have come and showed nothing newer: then nothing was traded, or the next one that shows a candle will tell.
    const isQuiet = (since: TimeMs) => one.type === 'market' && lastResponseAt >= since + overdueMs + settleMs
    const isOverdue = (gap: TimeRange) => gap.to - gap.from > overdueMs && !isQuiet(gap.from)
    const after = missing.filter(
      (gap) => gap.from > oldestKnown && gap.from > range.from && (gap.to < range.to || isOverdue(gap)),
    )
    const gaps = withCandles(gridOf(one.interval, oldestKnown), after)
    return gaps.length === 0 ? [] : [{ series: one, missing: gaps }]
  })
}

/** The end of what is covered is left to the live streams for so long: they catch up by themselves. */
const overdueMs = 10 * 60_000

/** The series of candles that have open gaps. */
async function openCandleSeries(db: Kysely<Database>): Promise<CandleSeries[]> {
  const series = new Map<string, CandleSeries>()
  for (const { stream, category, symbol, type, interval } of await listGaps(db, { state: 'open', stream: 'candles' })) {
    if (stream !== 'candles' || type === null || interval === null || !isTradedCategory(category)) continue
    const one = { category, symbol, type, interval }
    series.set(seriesText(one), one)
  }
  return [...series.values()]
}
