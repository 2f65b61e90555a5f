import type { Kysely } from 'kysely'
import type { BackfillJob } from '../history/job.js'
import { enqueue, type PlannedSeries } from '../history/plan.js'
import { readProgress, summarize, type Summary } from '../history/progress.js'
import type { BackfillSession } from '../history/session.js'
import { systemClock } from '../runtime/clock.js'
import type { Database } from '../store/db/schema.js'
import { openProgress } from './backfillProgress.js'

/** Has what is missing fetched, shows how that goes, and resolves to what came of it: when it is done, or `signal` aborts. */
export async function workOff(
  session: BackfillSession,
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  options: Pick<BackfillJob, 'kind' | 'again'>,
  signal: AbortSignal,
): Promise<Summary> {
  if (planned.length === 0) return nothingDone
  const queue = await session.queue()
  const ids = await enqueue(queue, planned, options)
  await session.work()
  let progress = await readProgress(db, queue, planned, ids, options)
  // A look takes the database longer the more there is.
  const everyMs = progress.left < 100_000 ? 200 : 1_000
  const display = openProgress({ total: progress.left, clock: systemClock, isHandedOver: !session.isOwner() })
  try {
    display.update(progress)
    while (!progress.isOver && !signal.aborted) {
      await systemClock.sleep(everyMs, signal).catch(() => undefined)
      progress = await readProgress(db, queue, planned, ids, options)
      display.update(progress)
    }
  } finally {
    display.close()
  }
  // What is in hand is stored before it is counted.
  if (signal.aborted) await session.rest()
  return summarize(db, queue, planned, ids)
}

const nothingDone: Summary = {
  rows: 0,
  inserted: 0,
  updated: 0,
  requests: 0,
  pagesSaved: 0,
  empty: [],
  unanswered: [],
  failed: [],
  left: 0,
}
