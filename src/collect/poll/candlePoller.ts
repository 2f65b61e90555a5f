import type { Batch, CandleTarget } from '../../ledger/batch.js'
import {
  type Candle,
  type CandleSeries,
  closeTime,
  type Interval,
  intervalMs,
  intervals,
  seriesText,
} from '../../market/candle.js'
import { hourMs, minuteMs, type ServiceMs, smallest } from '../../market/values.js'
import { type Clock, momentOf, sleepFor } from '../../runtime/clock.js'
import { candlesPerPage, CandleSchedule } from '../schedule/candleSchedule.js'
import type { onSchedule } from '../schedule/cron.js'
import type { InstrumentStream } from '../streams/stream.js'
import { createPoller, type Poller } from './poller.js'
import { type PollContext, pollAndStore, respondedMs } from './pollAndStore.js'

export interface CandlePoller extends Poller<CandleTarget> {
  /** When the service gave the last live response of a series; undefined before the first. */
  respondedAt(series: CandleSeries): ServiceMs | undefined
}

/**
 * Requests leave this long after the settle delay, because this machine's clock may be a little ahead. A request that
 * arrives too early shows a candle that is not final. The next request follows a whole interval later.
 */
const clockErrorMs = 100
/** A series is believed to lack candles once all its responses have been empty bodies for this long. */
const believedAfterMs = 30_000
/** An instrument without a trade for this long ranks as one that does not trade, whatever its ticker says. */
const silentAfterMs = 6 * hourMs

/**
 * Requests the newest candles of each series after the close of its interval and the settle delay, as often as
 * `CandleSchedule` says. The first request, and one after a pause, reach back over what may have been missed.
 *
 * @param schedule calls a function at each time of a cron expression, and returns a function that ends this
 */
export function candlePoller(
  context: PollContext,
  stream: InstrumentStream<CandleTarget, Candle>,
  settleMs: number,
  schedule: typeof onSchedule,
): CandlePoller {
  const { clock, stats, signal, universe } = context
  const candles = new CandleSchedule<CandleTarget>(settleMs)
  let due: CandleTarget[] = []
  /** Series that are due because a ticker claims that there is news. */
  const claimed = new Set<string>()
  const doubts = createDoubts(clock)

  const report = () => {
    const { quiet, late } = candles.counts(clock.monotonicMs())
    Object.assign(stats[stream.name], { targets: candles.size, quietTargets: quiet, lateTargets: late })
  }

  const poller = createPoller<CandleTarget>(context, (wake) => {
    const pollInterval = async (interval: Interval) => {
      if (!(await sleepFor(clock, settleMs + clockErrorMs, signal))) return
      for (const { target, isClaimed } of candles.due(interval, momentOf(clock), (one) => universe.tradeSign(one))) {
        due.push(target)
        if (isClaimed) claimed.add(seriesText(target))
      }
      wake()
      report()
    }
    const endings = intervals.map((interval) =>
      schedule(clock, closeSchedule(interval), () => void pollInterval(interval)),
    )
    return {
      keyOf: seriesText,
      retarget(next) {
        const { added, removed } = candles.retarget(next, clock.monotonicMs())
        const gone = new Set(removed.map(seriesText))
        due = [...due.filter((target) => !gone.has(seriesText(target))), ...added]
        for (const target of removed) {
          doubts.forget(target)
          claimed.delete(seriesText(target))
        }
        report()
      },
      waitMs: () => (due.length > 0 ? 0 : Infinity),
      take: () => due.splice(0),
      skipped: () => void (stats[stream.name].skippedPolls += 1),
      async request(target, waiting) {
        const isClaimed = claimed.delete(seriesText(target))
        const deadline = clock.monotonicMs() + intervalMs[target.interval]
        let hasResponded = false
        // A response that was not kept counts as one that never came. The next request reaches back over its time.
        const ask = async (limit: number) => {
          const polled = await pollAndStore(context, stream, { ...target, limit }, { signal: waiting, deadline })
          if (polled.failure === 'unsupported-interval') candles.refused(target, clock.monotonicMs())
          else if (polled.failure !== undefined) candles.failed(target, clock.monotonicMs())
          hasResponded ||= polled.batch !== null
          return polled.batch !== null && polled.isKept && doubts.isBelieved(target, polled.hasEnvelope)
            ? polled.batch
            : null
        }
        const limit = candles.limitFor(target, clock.now())
        // Read the sign before the request: any later change of the ticker is then noticed as new.
        const sign = universe.tradeSign(target)
        const batch = await askBackToLast(ask, candles, target, limit)
        if (batch === null) return hasResponded
        const { rows, requestTime, receivedAt } = batch
        const received = { wall: receivedAt, ms: respondedMs(clock, batch) }
        const silentSince = candles.responded(target, { rows, requestTime, received, isClaimed, sign })
        if (target.type === 'market') universe.setSilent(target, requestTime - silentSince > silentAfterMs)
        return true
      },
      end() {
        for (const ending of endings) ending()
      },
    }
  })
  return { ...poller, respondedAt: (series) => candles.respondedAt(series) }
}

/** Candles of long intervals are requested hourly, because days were seen to start at 16:00 UTC. */
function closeSchedule(interval: Interval): string {
  const minutes = intervalMs[interval] / minuteMs
  return minutes < 60 ? `0 */${minutes} * * * *` : '0 0 * * * *'
}

/**
 * Requests a series. After a silence, a response begins with the first candle after it. Only a response that also shows
 * the last candle before the silence proves it, so such a series is requested once more.
 */
async function askBackToLast(
  ask: (limit: number) => Promise<CandleBatch | null>,
  candles: CandleSchedule<CandleTarget>,
  target: CandleTarget,
  limit: number,
): Promise<CandleBatch | null> {
  const batch = await ask(limit)
  if (batch === null || !candles.has(target)) return null
  const last = candles.newestOpenTime(target)
  const oldest = smallest(batch.rows.map(({ openTime }) => openTime))
  if (last === null || oldest === Infinity || oldest <= closeTime(last, target.interval)) return batch
  if (limit >= candlesPerPage) return batch
  return (await ask(candles.candlesSince(last, batch.requestTime, target.interval))) ?? batch
}

type CandleBatch = Batch<CandleTarget, Candle>

/** An empty body may come from a proxy. If the service has no candle of the series, later bodies are empty, too. */
function createDoubts(clock: Clock) {
  /** Time since which all responses of a series are empty bodies, on the monotonic clock. */
  const doubted = new Map<string, number>()
  return {
    isBelieved(target: CandleTarget, hasEnvelope: boolean): boolean {
      const key = seriesText(target)
      const now = clock.monotonicMs()
      const since = doubted.get(key) ?? now
      if (hasEnvelope) doubted.delete(key)
      else doubted.set(key, since)
      return hasEnvelope || now - since >= believedAfterMs
    },
    forget: (target: CandleTarget) => doubted.delete(seriesText(target)),
  }
}
