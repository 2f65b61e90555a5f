import type { Turn } from '../../exchange/sender.js'
import { type Category, type InstrumentKey, instrumentText, type TradedCategory } from '../../market/category.js'
import type { Fill } from '../../market/rows.js'
import { streamTraits } from '../../market/stream.js'
import { fillShortage, worthOfTickers } from '../schedule/fillShare.js'
import { FillSchedule } from '../schedule/fillSchedule.js'
import type { TickerWatch } from '../streams/streams.js'
import type { InstrumentStream, Trigger } from '../streams/stream.js'
import { sleepFor } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { createPoller, type Poller } from './poller.js'
import { pollAndStore, type PollContext, respondedMs } from './pollAndStore.js'

/** Time between two reads of the known tickers. No sleep is longer, so that a target due early is noticed. */
const maxPauseMs = 500

export interface FillsPoller extends Poller<InstrumentKey> {
  /**
   * Worth of reading the tickers of a category whose newest came `sinceMs` ago. At 1 or more they are worth a
   * request. At 0 the requests for fills suffice.
   */
  worthOfTickers(category: Category, sinceMs: number): number
  /** Takes new tickers into account at once. Without this call the poller reads them twice a second. */
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
  const { clock, universe, stats } = context
  const schedule = new FillSchedule<InstrumentKey>(instrumentText, {
    groupOf: ({ category }) => category,
    minPollMs,
    maxPollMs,
  })
  const deadlines = new WeakMap<InstrumentKey, number>()
  const learnTrades = (wake: () => void) => {
    const { isIdle } = schedule.takeTickers((target) => universe.tradeSign(target), clock.monotonicMs())
    if (isIdle) stats[stream.name].lastIdleAt = clock.now()
    wake()
  }
  const poller = createPoller<InstrumentKey>(context, (wake) => ({
    keyOf: instrumentText,
    maxPauseMs,
    onTick() {
      learnTrades(wake)
      Object.assign(stats[stream.name], schedule.counts(clock.monotonicMs()))
      reportShortage(context, fillShortage(schedule.fillsPerSecond(), allowedPerSecond))
    },
    retarget(targets) {
      schedule.retarget(targets, clock.monotonicMs())
      for (const target of targets) {
        const perSecond = universe.find(target)?.measuredFillsPerSecond ?? null
        if (perSecond !== null) schedule.assume(target, perSecond / 1000)
      }
      stats[stream.name].targets = targets.length
    },
    waitMs() {
      const now = clock.monotonicMs()
      return schedule.upcoming(now).dueMs - now
    },
    turn: (signal) => waitForTurn(context, schedule.upcoming(clock.monotonicMs()).deadlineMs, signal),
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
  }))
  return {
    ...poller,
    worthOfTickers(category, sinceMs) {
      const untold = () => schedule.flow((target) => target.category === category) * sinceMs
      return worthOfTickers(schedule.fillsPerSecond(), allowedPerSecond, untold)
    },
    tickersCame: () => learnTrades(poller.wake),
  }
}

/**
 * Sends extra reads of tickers, between the recorded ones, until the signal aborts. The schedule of fills learns from
 * their volumes where trades happen: a burst is over before the next recorded ticker. One read begins at a time, of the
 * category where it is worth most. Extra reads are not stored. Their failures are not reported, because the recorded
 * tickers report the same failures.
 */
export async function watchTickers(
  context: Pick<PollContext, 'client' | 'clock' | 'serviceNow' | 'universe' | 'logger' | 'signal'>,
  { categories, minMs, gapMs }: TickerWatch,
  fills: Pick<FillsPoller, 'worthOfTickers' | 'tickersCame'>,
): Promise<void> {
  const { client, clock, serviceNow, universe, logger, signal } = context
  const reading = new Map<TradedCategory, Promise<void>>()
  const begunMs = new Map<TradedCategory, number>()
  const readExtra = async (category: TradedCategory) => {
    try {
      const deadline = clock.monotonicMs() + minMs
      // The priority `repair` lets requests for recorded data go first.
      const { rows } = await client.tickers({ category }, { signal, deadline, priority: 'repair' })
      universe.setTickers(rows)
      fills.tickersCame()
    } catch (error) {
      logger.debug(`tickers: ${messageOf(error)}`)
    }
  }
  const chooseCategory = (): TradedCategory | undefined => {
    const now = serviceNow() ?? Infinity
    let [best, maxWorth]: [TradedCategory | undefined, number] = [undefined, 1]
    for (const category of categories) {
      if (reading.has(category)) continue
      if (clock.monotonicMs() - (begunMs.get(category) ?? -Infinity) < minMs) continue
      const sinceMs = Math.max(0, now - (universe.tickersAt(category) ?? 0))
      const worth = sinceMs < minMs ? 0 : fills.worthOfTickers(category, sinceMs)
      if (worth >= maxWorth) [best, maxWorth] = [category, worth]
    }
    return best
  }
  while (await sleepFor(clock, gapMs, signal)) {
    const category = chooseCategory()
    if (category === undefined) continue
    reading.set(
      category,
      readExtra(category).finally(() => reading.delete(category)),
    )
    begunMs.set(category, clock.monotonicMs())
  }
  await Promise.all(reading.values())
}

/** Waits for a place within the limits. Resolves to null if there is none. */
async function waitForTurn(
  { client, logger }: PollContext,
  deadline: number,
  signal: AbortSignal,
): Promise<Turn | null> {
  try {
    return await client.turn(streamTraits.fills.operation, { signal, deadline })
  } catch (error) {
    if (!signal.aborted) logger.debug(`fills: ${messageOf(error)}`)
    return null
  }
}

function reportShortage({ incidents }: PollContext, shortage: string | null): void {
  if (shortage === null) incidents.succeeded('fills budget')
  else incidents.failed('fills budget', shortage)
}
