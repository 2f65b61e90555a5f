import { type Config, keptMs, storageOf } from '../config/resolve.js'
import type { CandleSeries } from '../market/candle.js'
import type { InstrumentKey } from '../market/category.js'
import { streamTraits } from '../market/stream.js'
import { minuteMs, secondMs, type ServiceMs } from '../market/values.js'
import { sleepFor, within } from '../runtime/clock.js'
import { type WantState, wantStates } from '../ledger/wants.js'
import { describeDatabaseError } from '../db/databaseError.js'
import { streamText } from '../db/series.js'
import { createEstimator } from './progress.js'
import { OperationStates } from './reach.js'
import { FillRepair, repairCandles, repairFutures } from './repairs.js'
import { reviewOnce } from './review.js'
import type { SliceContext } from './sliceWork.js'
import { HistoryWorker } from './worker.js'

interface HistoryOptions extends Omit<SliceContext, 'states' | 'settleMs'> {
  readonly config: Config
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** Returns when the last live response for a series came. */
  readonly respondedAt: (series: CandleSeries) => ServiceMs | undefined
  /** Returns true if this recorder requests an instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
}

/** A series that is being backfilled or repaired, or whose backfill or repair failed. */
interface HistoryReport {
  readonly id: string
  readonly what: string
  readonly state: 'waiting' | 'running' | 'failed'
  readonly doneShare: number | null
  readonly reachedAt: ServiceMs | null
  readonly etaMs: number | null
  readonly message: string | null
}

export interface History {
  reports(): Promise<HistoryReport[]>
  stop(): Promise<void>
}

/** Longest wait at the end. A database that does not respond must not keep the recorder from ending. */
const stopWithinMs = 5_000

/** Fetches what is wanted with the budget that the live streams leave, and adds wants for repairs and reviews. */
export function startHistory(options: HistoryOptions): History {
  const { config, db, clock, serviceNow, logger } = options
  const { candles, fills } = config.streams
  const { settleMs } = candles
  const states = new OperationStates(clock)
  const worker = new HistoryWorker({ ...options, states, settleMs })
  const fillRepair = new FillRepair({ ...options, states })
  const streams = repairedFutures(config)
  const stopping = new AbortController()
  /**
   * Repeats an action beside backfills, the first time after `everyMs`, with the time of the service. Before its first
   * response nothing can be judged. A failure is logged and does not end it.
   */
  const repeat = async (name: string, everyMs: number, action: (now: ServiceMs) => Promise<unknown>) => {
    while (await sleepFor(clock, everyMs, stopping.signal)) {
      const now = serviceNow()
      if (now === null) continue
      try {
        await action(now)
      } catch (error) {
        logger.warn(`${name}: ${describeDatabaseError(error)}`)
      }
    }
  }
  const routines = [
    candles.enabled && repeat('repair', minuteMs, (now) => repairCandles({ ...options, settleMs }, now)),
    fills.enabled && repeat('repair of fills', 10 * secondMs, (now) => fillRepair.look(now)),
    repeat('repair of futures', minuteMs, (now) => repairFutures({ ...options, states, streams }, now)),
    repeat('review', 10 * minuteMs, (now) => reviewOnce(db, now)),
  ]
  const estimates = new Map<number, ReturnType<typeof createEstimator>>()
  return {
    async reports() {
      const wants = await wantStates(db, { limit: maxReports })
      const ids = new Set(wants.map(({ id }) => id))
      for (const id of estimates.keys()) if (!ids.has(id)) estimates.delete(id)
      return wants.map((want) => {
        const estimator = estimates.get(want.id) ?? createEstimator(clock)
        estimates.set(want.id, estimator)
        return reportOf(want, estimator)
      })
    },
    async stop() {
      stopping.abort()
      await within(clock, stopWithinMs, Promise.all([...routines, worker.stop()]), undefined)
    },
  }
}

function repairedFutures(config: Config) {
  const storage = storageOf(config)
  return (['funding_rates', 'liquidations'] as const)
    .filter((name) => config.streams[streamTraits[name].options].enabled)
    .map((name) => ({ name, keptMs: keptMs(storage, name) }))
}

const maxReports = 2_000

function reportOf(want: WantState, estimator: ReturnType<typeof createEstimator>): HistoryReport {
  const { id, kind, series, isEnded, isRunning, total, left, reachedAt, problem, failure } = want
  const what = { id: String(id), what: `${kind} ${streamText(series)}` }
  if (isEnded) return { ...what, state: 'failed', doneShare: null, reachedAt: null, etaMs: null, message: failure }
  return {
    ...what,
    state: isRunning ? 'running' : 'waiting',
    doneShare: total === 0 ? 1 : 1 - left / total,
    reachedAt,
    etaMs: estimator(left)?.etaMs ?? null,
    message: problem,
  }
}
