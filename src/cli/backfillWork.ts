import type { Kysely } from 'kysely'
import { egressOf, openExchange } from '../app.js'
import type { Config } from '../config/resolve.js'
import { type PlannedSeries, wantsOf } from '../history/plan.js'
import { readProgress, summarize, type Summary } from '../history/progress.js'
import { type BackfillSession, openSession } from '../history/session.js'
import type { OpenStore } from '../openStore.js'
import { systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { insertWants, type WantKind, wantStates } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import { openProgress } from './backfillOutput.js'

const minLookMs = 200

/** Opens a session that fetches wants. It ends when `signal` aborts, or when it is closed. */
export async function openBackfill(
  config: Config,
  store: OpenStore,
  logger: Logger,
  signal: AbortSignal,
): Promise<BackfillSession> {
  return openSession({
    db: store.database.db,
    url: store.url,
    openClient: (mayDepart) => openExchange(config, logger, systemClock, { mayDepart }),
    egress: egressOf(config),
    settleMs: config.streams.candles.settleMs,
    clock: systemClock,
    logger,
    signal,
  })
}

/** Fetches missing candles and shows the progress. Resolves to a summary when all are done, or when `signal` aborts. */
export async function fetchMissing(
  session: BackfillSession,
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  options: { readonly kind: WantKind; readonly again: boolean },
  signal: AbortSignal,
): Promise<Summary> {
  const open = planned.filter(({ missing }) => missing.length > 0)
  const ids = await insertWants(db, wantsOf(open, options))
  if (ids.length === 0) return summarize(db, [], [])
  // An interrupted run may have left an open want, which continues here. Its earlier counts are subtracted.
  const earlier = await wantStates(db, { ids })
  const unable = new AbortController()
  session.work().catch((error: unknown) => unable.abort(error))
  let progress = await readProgress(db, ids)
  const stream = open[0]?.series.stream ?? 'candles'
  const unit = stream === 'candles' ? stream : `minutes of ${stream}`
  const display = openProgress({ total: progress.left, unit, clock: systemClock, isHandedOver: !session.isOwner() })
  let tookMs = 0
  try {
    display.update(progress)
    while (progress.wantsEnded < progress.wants && !signal.aborted) {
      unable.signal.throwIfAborted()
      // Reading the progress takes longer for more candles, so the pause grows with it.
      await systemClock.sleep(Math.max(minLookMs, 10 * tookMs), signal).catch(() => undefined)
      const startedMs = systemClock.monotonicMs()
      progress = await readProgress(db, ids)
      tookMs = systemClock.monotonicMs() - startedMs
      display.update(progress)
    }
  } finally {
    display.close()
  }
  // After a stop, wait until fetched candles are stored, so that the summary counts them.
  if (signal.aborted) await session.rest()
  return summarize(db, open, ids, { isStopped: signal.aborted, earlier })
}
