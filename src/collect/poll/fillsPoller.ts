import type { Kysely } from 'kysely'
import type { Database } from '../../db/schema.js'
import { auditFills, dismissEmptyGaps, type WithdrawnMinute } from '../../ledger/fillAudit.js'
import { type Category, type InstrumentKey, instrumentText } from '../../market/category.js'
import type { Fill, TradeSign } from '../../market/rows.js'
import { streamTraits } from '../../market/stream.js'
import { dayMs } from '../../market/values.js'
import { fillShortage, worthOfTickers } from '../schedule/fillShare.js'
import { FillSchedule } from '../schedule/fillSchedule.js'
import type { InstrumentStream, Trigger } from '../streams/stream.js'
import { sleepFor } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { createPoller, type Poller } from './poller.js'
import { pollAndStore, type PollContext, respondedMs } from './pollAndStore.js'

/** Time between two looks at the tickers. No sleep is longer, so that a target due sooner than expected is noticed. */
const maxPauseMs = 500

export interface FillsPoller extends Poller<InstrumentKey> {
  /**
   * Worth of reading the tickers of a category whose newest came `sinceMs` ago. At 1 or more they are worth a
   * request. At 0 the requests for fills suffice.
   */
  worthOfTickers(category: Category, sinceMs: number): number
  /** Takes new tickers into account at once. Without this call the poller looks for them twice a second. */
  tickersCame(): void
}

/**
 * Requests the fills of each instrument before more have happened than one response shows. One request at a time
 * waits for its place within the limits. Its instrument is chosen when it may depart.
 */
export function fillsPoller(
  context: PollContext,
  stream: InstrumentStream<InstrumentKey, Fill>,
  { minPollMs, maxPollMs, allowedPerSecond }: Extract<Trigger, { kind: 'overlap' }>,
): FillsPoller {
  const { client, clock, universe, stats, incidents, logger } = context
  const schedule = new FillSchedule<InstrumentKey>(instrumentText, { minPollMs, maxPollMs })
  const deadlines = new WeakMap<InstrumentKey, number>()
  let signs = new Map<InstrumentKey, { readonly tradeSign: TradeSign | null } | undefined>()
  let learnTrades = () => {}

  const poller = createPoller<InstrumentKey>(context, (wake) => {
    learnTrades = () => {
      if (schedule.allTraded((target) => signs.get(target)?.tradeSign ?? null))
        stats[stream.name].lastIdleAt = clock.now()
      wake()
    }
    return {
      keyOf: instrumentText,
      maxPauseMs,
      look() {
        learnTrades()
        Object.assign(stats[stream.name], schedule.counts(clock.monotonicMs()))
        const shortage = fillShortage(schedule.fillsPerSecond(), allowedPerSecond)
        if (shortage === null) incidents.succeeded('fills budget')
        else incidents.failed('fills budget', shortage)
      },
      retarget(targets) {
        schedule.retarget(targets, clock.monotonicMs())
        for (const target of targets) {
          const perSecond = universe.find(target)?.measuredFillsPerSecond ?? null
          if (perSecond !== null) schedule.assume(target, perSecond / 1000)
        }
        signs = new Map(schedule.targets().map((target) => [target, universe.find(target)]))
        stats[stream.name].targets = targets.length
      },
      waitMs() {
        const now = clock.monotonicMs()
        return schedule.upcoming(now).dueMs - now
      },
      async turn(signal) {
        const { deadlineMs } = schedule.upcoming(clock.monotonicMs())
        try {
          return await client.turn(streamTraits.fills.operation, { signal, deadline: deadlineMs })
        } catch (error) {
          if (!signal.aborted) logger.debug(`${stream.name}: ${messageOf(error)}`)
          return null
        }
      },
      take() {
        const chosen = schedule.choose(clock.monotonicMs())
        if (chosen === null) return []
        deadlines.set(chosen.target, chosen.deadlineMs)
        return [chosen.target]
      },
      // The instrument was removed and added again while its last request was under way.
      skipped: (target) => schedule.failed(target, clock.monotonicMs()),
      async request(target, signal, turn) {
        const deadline = deadlines.get(target)
        const options = { signal, ...(deadline === undefined ? {} : { deadline }), ...(turn && { turn }) }
        const { batch, isKept } = await pollAndStore(context, stream, target, options)
        // The turn is still held only if polling failed before the request was made.
        turn?.release()
        const now = clock.monotonicMs()
        if (batch === null) schedule.failed(target, now)
        else if (!isKept) schedule.lost(target, now)
        else schedule.responded(target, batch.rows, batch.requestTime, respondedMs(clock, batch))
        wake()
        return batch !== null
      },
      dropped(batches) {
        const nowMs = clock.monotonicMs()
        for (const { stream: name, target, requestTime, rows } of batches)
          if (name === stream.name && rows.length > 0) schedule.dropped(target as InstrumentKey, requestTime, nowMs)
      },
    }
  })
  return {
    ...poller,
    worthOfTickers(category, sinceMs) {
      const untold = () => schedule.flow((target) => target.category === category) * sinceMs
      return worthOfTickers(schedule.fillsPerSecond(), allowedPerSecond, untold)
    },
    tickersCame: () => learnTrades(),
  }
}

/** Time between two comparisons of fills with candles. */
const auditEveryMs = 20_000
/** Gaps and minutes older than this are not compared any more: their candles have not come and hardly will. */
const lookbackMs = dayMs

/**
 * Compares fills with closed candles every 20 s, until `signal` aborts. Removes gaps in which nothing was lost.
 * Withdraws the coverage of minutes in which more was traded than is stored.
 */
export async function keepAuditingFills(
  db: Kysely<Database>,
  {
    clock,
    logger,
    incidents,
    signal,
    isOwn,
  }: Pick<PollContext, 'clock' | 'logger' | 'incidents' | 'signal'> & { readonly isOwn: () => boolean },
): Promise<void> {
  let after = 0
  while (await sleepFor(clock, auditEveryMs, signal)) {
    // Only one recorder of the fleet compares.
    if (!isOwn()) continue
    try {
      const { dismissed, last } = await dismissEmptyGaps(db, { since: clock.now() - lookbackMs, after })
      // After the last gap, the next round begins at the first one again: some gaps still wait for their candles.
      after = last ?? 0
      const withdrawn = await auditFills(db, { since: clock.now() - lookbackMs, at: clock.now() })
      if (withdrawn.length === 0) incidents.succeeded('fills audit')
      else incidents.failed('fills audit', describeWithdrawn(withdrawn))
      if (dismissed > 0) logger.info(`fills: ${dismissed} gap(s) removed: the candles show that nothing was lost`)
    } catch (error) {
      // The database is away or busy. Comparing later loses nothing.
      logger.debug(`fills: gaps could not be looked through: ${messageOf(error)}`)
    }
  }
}

function describeWithdrawn(minutes: readonly WithdrawnMinute[]): string {
  const shown = minutes.slice(0, 3).map(({ category, symbol, minute }) => {
    return `${category} ${symbol} ${new Date(minute).toISOString().slice(0, 16)}`
  })
  const others = minutes.length > shown.length ? ` and ${minutes.length - shown.length} more` : ''
  return `candles show more than the stored fills in ${shown.join(', ')}${others}; these minutes are gaps now`
}
