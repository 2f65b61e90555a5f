import { ExchangeError } from '../../exchange/errors.js'
import { type Candle, closeTime, type Interval, intervalMs, seriesText } from '../../market/candle.js'
import type { TimeMs } from '../../market/values.js'
import type { TradeSign } from '../../market/ticker.js'
import type { CandleResponses } from './candleResponses.js'
import { paceLimits } from '../schedule/candlePace.js'
import { onSchedule } from './cron.js'
import { afterResponse, fullPace, type Pace, waitMs, waitWhenClaimedMs } from '../schedule/pace.js'
import { type PollContext, pollAndStore } from './pollContext.js'
import { Exclusive, type Poller } from './poller.js'
import { TargetSignals } from './targetSignals.js'
import type { CandleTarget } from '../../store/batch/targets.js'
import type { StreamDefinition } from '../streams.js'
import { sleepUntil } from '../../runtime/clock.js'

/** Most candles of one response. */
const candlesPerPage = 1000
/** Without a trade for so long, an instrument ranks as one that does not trade, whatever its ticker says. */
const silentAfterMs = 6 * 3_600_000
const slowPace: Pace = { fruitless: 3, misled: 0 }
/** An interval that the instrument does not have is asked for again so much later. */
const refusedForMs = 86_400_000
/** Time for a response to come and be stored. */
const graceMs = 30_000

/** What is known of a series from its responses. */
interface Known {
  respondedAt: TimeMs
  /** The same on the monotonic clock: the other may be set right by hours. */
  answeredMs: number
  pace: Pace
  /** What the ticker said when the last response came. */
  sign: TradeSign | null
  /** When the newest candle with a trade in it opened; -Infinity when none was seen. */
  tradedAt: TimeMs
  newest: string | null
}

/**
 * Asks for the newest candles of each series after the close of its interval and the settle delay: after every close while they
 * bring trades, and after fewer and fewer when they do not, unless a ticker that is to be believed says that there was a trade.
 * The first response, and the one after a pause, reach back over what may have been missed.
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
  const known = new Map<string, Known>()
  const signals = new TargetSignals(signal)
  let targets: ReadonlyMap<string, CandleTarget> = new Map()

  const refusedAt = new Map<string, TimeMs>()
  const noting: typeof stream = {
    ...stream,
    async fetch(client, target, options) {
      try {
        return await stream.fetch(client, target, options)
      } catch (error) {
        const isRefused = error instanceof ExchangeError && error.kind === 'unsupported-interval'
        if (isRefused) refusedAt.set(seriesText(target), clock.now())
        throw error
      }
    },
  }

  const pollOne = async (key: string, target: CandleTarget, claimed: boolean) => {
    const before = known.get(key)
    const limit = before === undefined ? candlesPerPage : candlesSince(before.respondedAt, clock.now(), target)
    const deadline = clock.monotonicMs() + intervalMs[target.interval]
    const waiting = signals.signalFor(key)
    const ask = (most: number) =>
      pollAndStore(context, noting, { ...target, limit: most }, { signal: waiting, deadline })
    let batch = await ask(limit)
    if (batch === null || !targets.has(key)) return
    // After a silence a response begins with the first candle since: only one that shows the last candle before it as well
    // says that nothing was traded between them.
    const last = responses.get(target)?.newest ?? null
    const oldest = Math.min(...batch.rows.map(({ openTime }) => openTime))
    if (last !== null && oldest < Infinity && oldest > closeTime(last, target.interval) && limit < candlesPerPage) {
      batch = (await ask(candlesSince(last, clock.now(), target))) ?? batch
    }
    const seen = Math.max(last ?? -Infinity, ...batch.rows.map(({ openTime }) => openTime))
    responses.set(target, { at: batch.receivedAt, newest: seen > -Infinity ? seen : null })
    const { tradedAt, newest } = lastTrade(batch.rows, before)
    const brought = before === undefined ? tradedAt > -Infinity : newest !== before.newest
    // A thousand candles without a trade need not be followed by three more requests that show the same.
    const isSilentAtFirst = before === undefined && !brought
    const pace = isSilentAtFirst ? slowPace : afterResponse(before?.pace ?? fullPace, { brought, claimed })
    // By our clock, as what it is compared with: the service's may be another.
    const answeredMs = clock.monotonicMs() - Math.max(0, clock.now() - batch.receivedAt)
    known.set(key, {
      respondedAt: batch.receivedAt,
      answeredMs,
      pace,
      sign: universe.tradeSign(target),
      tradedAt,
      newest,
    })
    // A trade may be as late in its candle as that is long.
    const silentMs = batch.receivedAt - tradedAt - intervalMs[target.interval]
    if (target.type === 'market') universe.setSilent(target, silentMs > silentAfterMs)
  }
  /** Whether a series is to be asked after this close, and whether that is because of its ticker. */
  const dueNow = (key: string, target: CandleTarget): { readonly claimed: boolean } | null => {
    const refused = refusedAt.get(key)
    if (refused !== undefined && clock.now() < refused + refusedForMs) return null
    const series = known.get(key)
    if (series === undefined) return { claimed: false }
    const limits = paceLimits(target.interval)
    // Half an interval of room: responses come a little earlier or later after each close.
    const sinceMs = clock.monotonicMs() - series.answeredMs + limits.everyMs / 2
    if (sinceMs >= waitMs(series.pace, limits)) return { claimed: false }
    const isClaimed = target.type === 'market' && claimsTrade(series.sign, universe.tradeSign(target))
    return isClaimed && sinceMs >= waitWhenClaimedMs(series.pace, limits) ? { claimed: true } : null
  }
  const pollInterval = async (interval: Interval) => {
    if (!(await sleepUntil(clock, clock.now() + settleMs, signal))) return
    for (const [key, target] of targets) {
      if (target.interval !== interval) continue
      const due = dueNow(key, target)
      if (due === null) continue
      if (!exclusive.run(key, () => pollOne(key, target, due.claimed))) stats[stream.name].skippedPolls += 1
    }
    report()
  }
  const report = () => {
    const nowMs = clock.monotonicMs()
    const streamStats = stats[stream.name]
    let [quiet, late] = [0, 0]
    for (const [key, { interval }] of targets) {
      const series = known.get(key)
      const limits = paceLimits(interval)
      const wait = series === undefined ? limits.everyMs : waitMs(series.pace, limits)
      if (wait > limits.everyMs) quiet++
      const askedMs = series?.answeredMs ?? targetedMs.get(key) ?? nowMs
      if (nowMs - askedMs > wait + limits.everyMs + settleMs + graceMs) late++
    }
    streamStats.quietTargets = quiet
    streamStats.lateTargets = late
  }
  /** On the monotonic clock. */
  const targetedMs = new Map<string, number>()
  const endings = (Object.keys(closeSchedules) as Interval[]).map((interval) =>
    schedule(clock, closeSchedules[interval], () => void pollInterval(interval)),
  )
  return {
    retarget(next) {
      const before = targets
      targets = new Map(next.map((target) => [seriesText(target), target]))
      stats[stream.name].targets = targets.size
      for (const [key, target] of targets) {
        if (before.has(key)) continue
        targetedMs.set(key, clock.monotonicMs())
        exclusive.run(key, () => pollOne(key, target, false))
      }
      for (const [key, target] of before) {
        if (targets.has(key)) continue
        known.delete(key)
        refusedAt.delete(key)
        responses.forget(target)
        targetedMs.delete(key)
      }
      signals.keepOnly(targets)
      report()
    },
    async stop() {
      for (const end of endings) end()
      await exclusive.idle()
    },
  }
}

/** The newest candle in which something happened: trades, or for types without any a price that moved. */
function lastTrade(rows: readonly Candle[], before: Known | undefined): Pick<Known, 'tradedAt' | 'newest'> {
  let last: Candle | undefined
  let previousClose: string | undefined
  for (const candle of rows.toSorted((a, b) => a.openTime - b.openTime)) {
    const isMoving = candle.high !== candle.low || (previousClose !== undefined && candle.close !== previousClose)
    if (Number(candle.baseVolume) > 0 || (candle.type !== 'market' && isMoving)) last = candle
    previousClose = candle.close
  }
  if (last === undefined) return { tradedAt: before?.tradedAt ?? -Infinity, newest: before?.newest ?? null }
  return { tradedAt: last.openTime, newest: `${last.openTime} ${last.baseVolume} ${last.close}` }
}

function claimsTrade(before: TradeSign | null, now: TradeSign | null): boolean {
  if (before === null || now === null) return before !== now
  return before.volume24h !== now.volume24h || before.lastPrice !== now.lastPrice
}

/** When candles of an interval may close. Days were seen to start at 16:00 UTC, so long intervals are looked at hourly. */
const closeSchedules: Readonly<Record<Interval, string>> = {
  '1m': '0 * * * * *',
  '3m': '0 */3 * * * *',
  '5m': '0 */5 * * * *',
  '15m': '0 */15 * * * *',
  '30m': '0 */30 * * * *',
  '1H': '0 0 * * * *',
  '4H': '0 0 * * * *',
  '6H': '0 0 * * * *',
  '12H': '0 0 * * * *',
  '1D': '0 0 * * * *',
  '3D': '0 0 * * * *',
  '1W': '0 0 * * * *',
  '6Hutc': '0 0 * * * *',
  '12Hutc': '0 0 * * * *',
  '1Dutc': '0 0 * * * *',
  '3Dutc': '0 0 * * * *',
  '1Wutc': '0 0 * * * *',
}

/** How many candles to ask for so that the response reaches back to the oldest that had not settled at `before`. */
export function candlesSince(
  before: TimeMs,
  now: TimeMs,
  { interval, settleMs }: Pick<CandleTarget, 'interval' | 'settleMs'>,
): number {
  const spare = 2
  return Math.min(candlesPerPage, Math.ceil(Math.max(0, now - before + settleMs) / intervalMs[interval]) + spare)
}
