import type { Kysely } from 'kysely'
import { egressOf, openExchange } from '../app.js'
import { ServiceClock } from '../exchange/serviceClock.js'
import type { Config } from '../config/resolve.js'
import type { Database, WantKind } from '../db/schema.js'
import { type PlannedSeries, wantsOf } from '../history/request.js'
import { createEstimator, type Progress, readProgress } from '../history/progress.js'
import { type BackfillSession, openSession } from '../history/session.js'
import { insertWants, wantStates } from '../ledger/wants.js'
import type { OpenStore } from '../openStore.js'
import { noteResponding } from '../prepareStore.js'
import { systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { grouped, inWords } from '../runtime/text.js'
import { summarize, type Summary } from './backfillSummary.js'
import { bar, progressLine } from './output.js'

const minLookMs = 200

/** Opens a session that fetches wants. It ends when `signal` aborts, or when it is closed. */
export async function openBackfill(
  config: Config,
  store: OpenStore,
  logger: Logger,
  signal: AbortSignal,
): Promise<BackfillSession> {
  const serviceClock = new ServiceClock(systemClock, logger)
  return openSession({
    db: store.database.db,
    url: store.url,
    openClient: (right) => openExchange(right, config, logger, { serviceClock }),
    onResponse: () => noteResponding(store, config, logger),
    egress: egressOf(config),
    folder: config.database.dataDir,
    settleMs: config.streams.candles.settleMs,
    clock: systemClock,
    serviceNow: () => serviceClock.now(),
    logger,
    signal,
  })
}

/** Fetches missing ranges and shows the progress. Resolves to a summary when all are done, or when `signal` aborts. */
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
  const describe = progressDescriber(progress.left, stream === 'candles' ? stream : `minutes of ${stream}`)
  const line = progressLine()
  let tookMs = 0
  let wasOwner = true
  const noteOwner = () => {
    if (wasOwner && !session.isOwner()) line.note('the recorder on this host is doing the work; showing its progress')
    wasOwner = session.isOwner()
  }
  try {
    noteOwner()
    line.show(describe(progress))
    while (progress.wantsEnded < progress.wants && !signal.aborted) {
      unable.signal.throwIfAborted()
      noteOwner()
      // Reading the progress takes longer for a larger backfill, so the pause grows with it.
      await systemClock.sleep(Math.max(minLookMs, 10 * tookMs), signal).catch(() => undefined)
      const startedMs = systemClock.monotonicMs()
      progress = await readProgress(db, ids)
      tookMs = systemClock.monotonicMs() - startedMs
      line.show(describe(progress))
    }
  } finally {
    line.end()
  }
  // After a stop, wait until fetched rows are stored, so that the summary counts them.
  if (signal.aborted) await session.rest()
  return summarize(db, open, ids, { isStopped: signal.aborted, earlier })
}

/**
 * Returns a function that describes the progress, and measures the speed whenever it is called.
 *
 * @param unit what is fetched: `candles`, or for example `minutes of fills` for other streams
 */
function progressDescriber(total: number, unit: string): (progress: Progress) => () => string {
  const estimate = createEstimator(systemClock)
  return ({ left, reachedAt, wants, wantsEnded }) => {
    const speed = estimate(left)
    const share = total === 0 ? 1 : Math.max(0, 1 - left / total)
    return () =>
      [
        ...(process.stderr.isTTY ? [`${bar(share, 1)} ${Math.floor(share * 100)} %`] : []),
        `${grouped(total - left)} of ${grouped(total)} ${unit}`,
        speed === null ? 'waiting' : `${grouped(Math.round(speed.perSecond))}/s`,
        ...(speed === null || left === 0 ? [] : [`${inWords(speed.etaMs)} to go`]),
        ...(reachedAt === null ? [] : [`back to ${new Date(reachedAt).toISOString().slice(0, 16)}`]),
        `series ${Math.min(wants, wantsEnded + 1)} of ${wants}`,
      ].join(' · ')
  }
}
