import type { Kysely } from 'kysely'
import { type CandleSeries, intervalMs, seriesText } from '../market/candle.js'
import { isTradedCategory } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type Clock, sleepUntil } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { candleStream, missingCandles, type SeriesRange, settleGaps } from '../store/history/candleCoverage.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import { listGaps, recordGap } from '../store/proof/gaps.js'
import { isSparse } from '../store/history/noTrade.js'
import type { Database } from '../store/db/schema.js'
import { gridOf, withCandles } from '../market/candleGrid.js'
import { type BackfillQueue } from './job.js'
import { enqueue, type PlannedSeries } from './plan.js'

export interface RepairOptions {
  readonly db: Kysely<Database>
  readonly queue: BackfillQueue
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** When the last live response for a series came; without, a series that ends early is always behind. */
  readonly answeredAt?: (series: CandleSeries) => TimeMs | undefined
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
  /** How often it looks for holes. Default: once a minute. */
  readonly everyMs?: number
}

export interface Repair {
  stop(): Promise<void>
}

/** Older holes are what nobody asked to have; a backfill of the range fills them. */
const horizonMs = 7 * 86_400_000
/** A hole is asked for again after these times; what stays away longer than a day is looked at once a day. */
const retryAfterMs = [0, 60_000, 10 * 60_000, 3_600_000, 6 * 3_600_000, 24 * 3_600_000]

/**
 * Looks for holes in the candles that are recorded and has them filled, before any backfill: what a restart or an outage
 * left out between two stretches that are covered, and what should be there by now at the end of the last one.
 */
export function startRepair(options: RepairOptions): Repair {
  const { clock, logger, everyMs = 60_000 } = options
  const stopping = new AbortController()
  const tried = new Map<string, { attempts: number; nextAt: TimeMs }>()
  const running = (async () => {
    while (await sleepUntil(clock, clock.now() + everyMs, stopping.signal)) {
      try {
        await repairOnce(options, tried)
      } catch (error) {
        logger.warn(`repair: ${describeDatabaseError(error)}`)
      }
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}

async function repairOnce(
  options: RepairOptions,
  tried: Map<string, { attempts: number; nextAt: TimeMs }>,
): Promise<void> {
  const { db, queue, series, clock, logger } = options
  const now = clock.now()
  // What live candles have filled by themselves.
  for (const gap of await openCandleSeries(db)) await settleGaps(db, gap)
  const found = await findHoles(db, series(), now, options)
  const holes = found.filter(({ series: of, missing }) => {
    const [first] = missing
    const before = tried.get(`${seriesText(of)} ${first?.from}`)
    return before === undefined || before.nextAt <= now
  })
  if (holes.length === 0) return
  for (const { series: of, missing } of holes) {
    // What is missing of a series that is silent for long may be no hole: that is for the answer to tell.
    for (const range of (await isSparse(db, of)) ? [] : missing) {
      await recordGap(db, { ...candleStream(of), range, reason: 'not recorded: the recorder or the service was away' })
    }
    const key = `${seriesText(of)} ${missing[0]?.from}`
    const attempts = (tried.get(key)?.attempts ?? 0) + 1
    const delayMs = retryAfterMs[Math.min(attempts, retryAfterMs.length - 1)] ?? 0
    tried.set(key, { attempts, nextAt: now + delayMs })
  }
  for (const [key, { nextAt }] of tried) if (nextAt < now - horizonMs) tried.delete(key)
  const ids = await enqueue(queue, holes, { kind: 'repair', again: false })
  if (ids.length > 0) logger.info(`repair: ${holes.length} series have holes; they are being filled`)
}

/** Holes within the horizon: between covered stretches, and after the last one when its next candles are overdue. */
export async function findHoles(
  db: Kysely<Database>,
  series: readonly CandleSeries[],
  now: TimeMs,
  { settleMs, answeredAt }: Pick<RepairOptions, 'settleMs' | 'answeredAt'>,
): Promise<PlannedSeries[]> {
  const requested: SeriesRange[] = series.map((of) => {
    const lengthMs = intervalMs[of.interval]
    const to = Math.floor((now - settleMs) / lengthMs) * lengthMs
    return { series: of, range: { from: now - horizonMs, to: Math.max(now - horizonMs, to) } }
  })
  const known = await missingCandles(db, requested, { leaveOutAskedLately: true })
  return known.flatMap(({ series: of, range, missing, oldestKnown }) => {
    // What was never recorded is no hole.
    if (oldestKnown === null) return []
    const lastResponseAt = answeredAt?.(of) ?? Number.NEGATIVE_INFINITY
    // Answers have come and showed nothing newer: then nothing was traded, or the next one that shows a candle will tell.
    const isQuiet = (from: TimeMs) => of.type === 'market' && lastResponseAt >= from + overdueMs
    const isOverdue = ({ from, to }: TimeRange) => to - from > overdueMs && !isQuiet(from)
    const after = missing.filter(
      (hole) => hole.from > oldestKnown && hole.from > range.from && (hole.to < range.to || isOverdue(hole)),
    )
    const holes = withCandles(gridOf(of.interval, oldestKnown), after)
    if (holes.length === 0) return []
    return [{ series: of, range, missing: holes, isUrgent: false, hasOpenBeginning: false }]
  })
}

/** The end of what is covered is left to the live streams for so long: they catch up by themselves. */
const overdueMs = 10 * 60_000

/** The series of candles that have open holes. */
async function openCandleSeries(db: Kysely<Database>): Promise<CandleSeries[]> {
  const series = new Map<string, CandleSeries>()
  for (const { stream, category, symbol, type, interval } of await listGaps(db, { state: 'open' })) {
    if (stream !== 'candles' || type === null || interval === null || !isTradedCategory(category)) continue
    const of = { category, symbol, type, interval }
    series.set(seriesText(of), of)
  }
  return [...series.values()]
}
