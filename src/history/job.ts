import type { CandleSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Kysely } from 'kysely'
import { type JobQueue, openQueue, type QueueOptions } from '../store/queue.js'
import type { Database } from '../store/db/schema.js'

/** A series and a range of opening times, some minutes' work. What of it is covered already is looked up when it is done. */
export interface BackfillJob {
  /** `review`: looks again at what is known, with what the others leave of the budget. */
  readonly kind: 'backfill' | 'repair' | 'review'
  readonly series: CandleSeries
  readonly range: TimeRange
  /** The lower end of the whole request that it is part of. */
  readonly floor: TimeMs
  /** Read what is covered, too. */
  readonly again: boolean
  /** Review: the end of the stretch that is next. */
  readonly nextTo?: TimeMs
}

export interface UnresolvedRange extends TimeRange {
  readonly reason: string
}

/** What became of a job. It says `failed` where trying again cannot help. */
export interface JobOutcome {
  readonly status: 'done' | 'incomplete' | 'failed'
  readonly requests: number
  /** Closed candles received. */
  readonly rows: number
  readonly inserted: number
  /** Stored candles that had other values before. */
  readonly updated: number
  readonly empty: readonly TimeRange[]
  /** Sparse candles: asked for without an answer that shows a candle on both sides. Nothing is claimed of them. */
  readonly unanswered: readonly TimeRange[]
  readonly unresolved: readonly UnresolvedRange[]
  readonly failure?: string
  /** The service has rewritten the series by this factor; its whole past is to be read again. */
  readonly restatedBy?: { readonly numerator: string; readonly denominator: string }
}

export type BackfillQueue = JobQueue<BackfillJob, JobOutcome>

/** The queue that all backfills of a database share. */
export function openBackfillQueue(db: Kysely<Database>, options: QueueOptions): Promise<BackfillQueue> {
  return openQueue<BackfillJob, JobOutcome>(db, 'candles', options)
}
