import { ExchangeError } from '../../exchange/errors.js'
import type { CandleTarget } from '../../ledger/batch.js'
import {
  type Candle,
  type CandleSeries,
  closeTime,
  type Interval,
  intervalMs,
  seriesText,
} from '../../market/candle.js'
import { hourMs, type TimeMs } from '../../market/values.js'
import { momentOf, sleepFor } from '../../runtime/clock.js'
import { candlesPerPage, CandleSchedule } from '../schedule/candleSchedule.js'
import { onSchedule } from '../schedule/cron.js'
import type { InstrumentStream } from '../streams/stream.js'
import { createPoller, type Poller } from './poller.js'
import { type PollContext, pollAndStore, respondedMs } from './pollAndStore.js'

interface CandleResponse {
  /** Time the response came, by this machine's clock. */
  readonly at: TimeMs
  /** Opening time of the newest candle that any response has shown; null while none has. */
  readonly newest: TimeMs | null
}

/**
 * The last live response of each series of candles since the recorder started. A series is quiet when responses come
 * but show nothing new. A series is behind when no response comes.
 */
export class CandleResponses {
  readonly #bySeries = new Map<string, CandleResponse>()

  get(series: CandleSeries): CandleResponse | undefined {
    return this.#bySeries.get(seriesText(series))
  }

  set(series: CandleSeries, response: CandleResponse): void {
    this.#bySeries.set(seriesText(series), response)
  }

  forget(series: CandleSeries): void {
    this.#bySeries.delete(seriesText(series))
  }
}

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
  responses: CandleResponses,
  schedule: typeof onSchedule = onSchedule,
): Poller<CandleTarget> {
  const { clock, stats, signal, universe } = context
  const candles = new CandleSchedule<CandleTarget>(settleMs)
  let due: CandleTarget[] = []
  /** Series that are due because a ticker claims that there is news. */
  const claimed = new Set<string>()
  /** Time since which all responses of a series are empty bodies, on the monotonic clock. */
  const doubted = new Map<string, number>()
  const noting: typeof stream = {
    ...stream,
    async fetch(client, target, options) {
      try {
        return await stream.fetch(client, target, options)
      } catch (error) {
        const isRefused = error instanceof ExchangeError && error.kind === 'unsupported-interval'
        if (isRefused) candles.refused(target, clock.monotonicMs())
        throw error
      }
    },
  }

  // An empty body may come from a proxy. If the service has no candle of the series, later bodies are empty, too.
  const isBelieved = (target: CandleTarget, hasEnvelope: boolean) => {
    const key = seriesText(target)
    const now = clock.monotonicMs()
    const since = doubted.get(key) ?? now
    if (hasEnvelope) doubted.delete(key)
    else doubted.set(key, since)
    return hasEnvelope || now - since >= believedAfterMs
  }
  const report = () => {
    const { quiet, late } = candles.counts(clock.monotonicMs())
    Object.assign(stats[stream.name], { targets: candles.size, quietTargets: quiet, lateTargets: late })
  }

  return createPoller(context, (wake) => {
    const pollInterval = async (interval: Interval) => {
      if (!(await sleepFor(clock, settleMs, signal))) return
      for (const { target, isClaimed } of candles.due(interval, momentOf(clock), (one) => universe.tradeSign(one))) {
        due.push(target)
        if (isClaimed) claimed.add(seriesText(target))
      }
      wake()
      report()
    }
    const endings = (Object.keys(closeSchedules) as Interval[]).map((interval) =>
      schedule(clock, closeSchedules[interval], () => void pollInterval(interval)),
    )
    return {
      keyOf: seriesText,
      retarget(next) {
        const { added, removed } = candles.retarget(next, clock.monotonicMs())
        const gone = new Set(removed.map(seriesText))
        due = [...due.filter((target) => !gone.has(seriesText(target))), ...added]
        for (const target of removed) {
          responses.forget(target)
          doubted.delete(seriesText(target))
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
          const polled = await pollAndStore(context, noting, { ...target, limit }, { signal: waiting, deadline })
          hasResponded ||= polled.batch !== null
          return polled.batch !== null && polled.isKept && isBelieved(target, polled.hasEnvelope) ? polled.batch : null
        }
        const limit = candles.limitFor(target, clock.now())
        // Read the sign before the request: any later change of the ticker is then noticed as new.
        const sign = universe.tradeSign(target)
        let batch = await ask(limit)
        if (batch === null || !candles.has(target)) return hasResponded
        // After a silence, a response begins with the first candle after it. Only a response that also shows the last
        // candle before the silence proves it.
        const last = responses.get(target)?.newest ?? null
        const oldest = Math.min(...batch.rows.map(({ openTime }) => openTime))
        if (last !== null && oldest < Infinity && oldest > closeTime(last, target.interval) && limit < candlesPerPage) {
          batch = (await ask(candles.candlesSince(last, clock.now(), target.interval))) ?? batch
        }
        const { rows, receivedAt } = batch
        const seen = Math.max(last ?? -Infinity, ...rows.map(({ openTime }) => openTime))
        responses.set(target, { at: receivedAt, newest: seen > -Infinity ? seen : null })
        const received = { wall: receivedAt, ms: respondedMs(clock, batch) }
        const silentSince = candles.responded(target, { rows, received, isClaimed, sign })
        if (target.type === 'market') universe.setSilent(target, receivedAt - silentSince > silentAfterMs)
        return true
      },
      end() {
        for (const ending of endings) ending()
      },
    }
  })
}

/** Candles of long intervals are requested hourly, because days were seen to start at 16:00 UTC. */
const hourly = '0 0 * * * *'
const closeSchedules: Readonly<Record<Interval, string>> = {
  '1m': '0 * * * * *',
  '3m': '0 */3 * * * *',
  '5m': '0 */5 * * * *',
  '15m': '0 */15 * * * *',
  '30m': '0 */30 * * * *',
  '1H': hourly,
  '4H': hourly,
  '6H': hourly,
  '12H': hourly,
  '1D': hourly,
  '3D': hourly,
  '1W': hourly,
  '6Hutc': hourly,
  '12Hutc': hourly,
  '1Dutc': hourly,
  '3Dutc': hourly,
  '1Wutc': hourly,
}
