import { ExchangeError } from '../../exchange/errors.js'
import { type Candle, closeTime, type Interval, intervalMs, seriesText } from '../../market/candle.js'
import { hourMs } from '../../market/values.js'
import type { Ending } from '../../runtime/abort.js'
import { momentOf, sleepFor } from '../../runtime/clock.js'
import type { CandleTarget } from '../../ledger/batch.js'
import { candlesPerPage, CandleSchedule } from '../schedule/candleSchedule.js'
import type { StreamDefinition } from '../streams.js'
import type { CandleResponses } from './candleResponses.js'
import { onSchedule } from './cron.js'
import { type PollContext, pollAndStore, respondedMs } from './pollAndStore.js'
import { Exclusive, type Poller } from './poller.js'
import { TargetSignals } from './targetSignals.js'

/** Without a trade for so long, an instrument ranks as one that does not trade, whatever its ticker says. */
const silentAfterMs = 6 * hourMs

/**
 * Asks for the newest candles of each series after the close of its interval and the settle delay, as often as `CandleSchedule`
 * says. The first response, and the one after a pause, reach back over what may have been missed.
 *
 * @param schedule calls what it is given at each time of a cron expression, and returns what ends it
 */
export function candlePoller(
  context: PollContext,
  stream: StreamDefinition<CandleTarget, Candle>,
  settleMs: number,
  responses: CandleResponses,
  schedule: typeof onSchedule = onSchedule,
): Poller<CandleTarget> {
  const { clock, stats, signal, universe } = context
  const exclusive = new Exclusive()
  const candles = new CandleSchedule<CandleTarget>(settleMs)
  const signals = new TargetSignals(signal)
  /** Series whose last response was an empty body. */
  const doubted = new Set<string>()
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

  // An empty body may come from a proxy. From the service, which has no candle of the series, the next one is empty as well.
  const isBelieved = (target: CandleTarget, hasEnvelope: boolean) => {
    const key = seriesText(target)
    const isRepeated = doubted.has(key)
    if (hasEnvelope) doubted.delete(key)
    else doubted.add(key)
    return hasEnvelope || isRepeated
  }
  const pollOne = async (target: CandleTarget, isClaimed: boolean, waiting: Ending) => {
    const deadline = clock.monotonicMs() + intervalMs[target.interval]
    // A response that was not kept has shown nothing: the next one reaches back as if it had not come.
    const ask = async (limit: number) => {
      const polled = await pollAndStore(context, noting, { ...target, limit }, { signal: waiting, deadline })
      return polled.batch !== null && polled.isKept && isBelieved(target, polled.hasEnvelope) ? polled.batch : null
    }
    const limit = candles.limitFor(target, clock.now())
    // Read the sign before the request: any later change of the ticker is then noticed as new.
    const sign = universe.tradeSign(target)
    let batch = await ask(limit)
    if (batch === null || !candles.has(target)) return
    // After a silence a response begins with the first candle since: only one that shows the last candle before it as well
    // says that nothing was traded between them.
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
  }
  const start = (target: CandleTarget, isClaimed: boolean) =>
    exclusive.run(seriesText(target), () =>
      signals.during(seriesText(target), (waiting) => pollOne(target, isClaimed, waiting)),
    )

  const pollInterval = async (interval: Interval) => {
    if (!(await sleepFor(clock, settleMs, signal))) return
    for (const { target, isClaimed } of candles.due(interval, momentOf(clock), (one) => universe.tradeSign(one))) {
      if (!start(target, isClaimed)) stats[stream.name].skippedPolls += 1
    }
    report()
  }
  const report = () => {
    const { quiet, late } = candles.counts(clock.monotonicMs())
    Object.assign(stats[stream.name], { targets: candles.size, quietTargets: quiet, lateTargets: late })
  }
  const endings = (Object.keys(closeSchedules) as Interval[]).map((interval) =>
    schedule(clock, closeSchedules[interval], () => void pollInterval(interval)),
  )
  return {
    retarget(next) {
      const { added, removed } = candles.retarget(next, clock.monotonicMs())
      for (const target of added) start(target, false)
      for (const target of removed) {
        responses.forget(target)
        doubted.delete(seriesText(target))
      }
      signals.keepOnly(new Set(next.map(seriesText)))
      report()
    },
    async stop() {
      for (const end of endings) end()
      await exclusive.idle()
    },
  }
}

/** When candles of an interval may close. Days were seen to start at 16:00 UTC, so long intervals are looked at hourly. */
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
