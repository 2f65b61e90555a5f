import { operationOf } from '../../market/stream.js'
import type { Turn } from '../../exchange/sender.js'
import { type Category, type InstrumentKey, instrumentText } from '../../market/category.js'
import { type Fill, fillsPerPage } from '../../market/fill.js'
import type { TradeSign } from '../../market/ticker.js'
import { averageRate } from '../schedule/fillRate.js'
import { FillSchedule } from '../schedule/fillSchedule.js'
import { fillShortage, worthOfTickers } from '../schedule/fillShare.js'
import { type FillsSeen, lateFills } from '../schedule/lateFills.js'
import { type PollContext, pollAndStore, respondedMs } from './pollAndStore.js'
import { Exclusive, type Poller } from './poller.js'
import type { StreamDefinition, Trigger } from '../streams.js'
import { sleepFor } from '../../runtime/clock.js'
import { InterruptibleSleep } from '../../runtime/interruptibleSleep.js'
import { messageOf } from '../../runtime/messageOf.js'

/** How often new tickers are looked through, and a wake-up that was computed too late is made good. */
const lookAroundMs = 500

export interface FillsPoller extends Poller<InstrumentKey> {
  /**
   * How much it would help to read the tickers of a category whose newest came so long ago: 1 or more where that is worth a
   * request, 0 where the requests for fills suffice without.
   */
  worthOfTickers(category: Category, sinceMs: number): number
  /** Has it go by what tickers tell that have just come. Otherwise it looks for them twice a second. */
  tickersCame(): void
}

/**
 * Asks for each instrument's fills before more have happened than one response shows. One request at a time waits for its
 * place within the limits; whose fills it asks for is decided when it may depart.
 */
export function fillsPoller(
  context: PollContext,
  stream: StreamDefinition<InstrumentKey, Fill>,
  { minPollMs, maxPollMs, allowedPerSecond }: Extract<Trigger, { kind: 'overlap' }>,
): FillsPoller {
  const { client, clock, universe, stats, incidents, logger, signal } = context
  const schedule = new FillSchedule<InstrumentKey>(instrumentText, { minPollMs, maxPollMs })
  const exclusive = new Exclusive()
  const ended = new AbortController()
  const pause = new InterruptibleSleep(clock)
  const end = () => {
    ended.abort()
    pause.wake()
  }
  if (signal.aborted) end()
  else signal.addEventListener('abort', end, { once: true })

  const seen = new Map<string, FillsSeen>()
  let signs = new Map<InstrumentKey, { readonly tradeSign: TradeSign | null } | null>()

  const ask = async (target: InstrumentKey, deadline: number, turn: Turn) => {
    const polled = await pollAndStore(context, stream, target, { signal: ended.signal, deadline, turn })
    // Without effect unless it failed before the request was made.
    turn.release()
    const now = clock.monotonicMs()
    if (polled.batch === null) schedule.failed(target, now)
    else if (!polled.isKept) schedule.lost(target, now)
    else {
      const { batch } = polled
      const empty = schedule.responded(target, batch.rows, batch.requestTime, respondedMs(clock, batch))
      const key = instrumentText(target)
      if (seen.has(key)) seen.set(key, { atMs: now, perMs: averageRate(batch.rows, batch.requestTime), empty })
    }
    pause.wake()
  }

  const learnTrades = () => {
    if (schedule.allTraded((target) => signs.get(target)?.tradeSign ?? null))
      stats[stream.name].lastIdleAt = clock.now()
    pause.wake()
  }

  const lookAround = () => {
    learnTrades()
    const nowMs = clock.monotonicMs()
    const unseen = (key: string) => schedule.unseen(key, nowMs)
    const lateness = lateFills(seen, { nowMs, maxPollMs, fillsPerPage, unseen })
    Object.assign(stats[stream.name], lateness)
    const shortage = fillShortage(schedule.load().fillsPerSecond, allowedPerSecond)
    if (shortage === null) incidents.succeeded('fills budget')
    else incidents.failed('fills budget', shortage)
  }

  const keepLooking = async () => {
    do lookAround()
    while (await sleepFor(clock, lookAroundMs, ended.signal))
  }

  /** Resolves when the next request may depart; to null when there is nothing to ask for any more. */
  const nextTurn = async (deadline: number): Promise<Turn | null> => {
    try {
      return await client.turn(operationOf[stream.name], { signal: ended.signal, deadline })
    } catch (error) {
      if (!ended.signal.aborted) logger.debug(`${stream.name}: ${messageOf(error)}`)
      return null
    }
  }

  const keepAsking = async () => {
    while (!ended.signal.aborted) {
      const now = clock.monotonicMs()
      const { dueMs, deadlineMs } = schedule.upcoming(now)
      if (dueMs > now) {
        await pause.sleep(Math.min(lookAroundMs, Math.max(1, dueMs - now)))
        continue
      }
      const turn = await nextTurn(deadlineMs)
      if (turn === null) {
        await sleepFor(clock, lookAroundMs, ended.signal)
        continue
      }
      const nowMs = clock.monotonicMs()
      const chosen = schedule.choose(nowMs)
      const isStarted =
        chosen !== null &&
        exclusive.run(instrumentText(chosen.target), () => ask(chosen.target, chosen.deadlineMs, turn))
      if (isStarted) continue
      turn.release()
      // Taken off the list and put on it again while its last request was under way.
      if (chosen !== null) schedule.failed(chosen.target, nowMs)
    }
  }
  const running = Promise.all([keepLooking(), keepAsking()])

  return {
    worthOfTickers(category, sinceMs) {
      const untold = () => schedule.flow((target) => target.category === category) * sinceMs
      return worthOfTickers(schedule.load().fillsPerSecond, allowedPerSecond, untold)
    },
    tickersCame: learnTrades,
    dropped(batches) {
      const nowMs = clock.monotonicMs()
      for (const { stream: name, target, requestTime, rows } of batches)
        if (name === stream.name && rows.length > 0) schedule.dropped(target as InstrumentKey, requestTime, nowMs)
      pause.wake()
    },
    retarget(targets) {
      const now = clock.monotonicMs()
      schedule.retarget(targets, now)
      for (const target of targets) {
        const perSecond = universe.recordedFillsPerSecond(target)
        if (perSecond !== null) schedule.assume(target, perSecond / 1000)
      }
      signs = new Map(schedule.targets().map((target) => [target, universe.tradeSignOf(target)]))
      const wanted = new Set(targets.map(instrumentText))
      for (const key of seen.keys()) if (!wanted.has(key)) seen.delete(key)
      for (const key of wanted) if (!seen.has(key)) seen.set(key, { atMs: now, perMs: null, empty: 0 })
      stats[stream.name].targets = targets.length
      pause.wake()
    },
    async stop() {
      end()
      signal.removeEventListener('abort', end)
      await running
      await exclusive.idle()
    },
  }
}
