import { type Interval, intervalMs } from '../../market/interval.js'
import type { TimeMs } from '../../market/values.js'
import { onSchedule } from './cron.js'
import { type PollContext, pollAndStore } from './pollContext.js'
import { Exclusive, type Poller, sleepUntil } from './poller.js'
import type { CandleTarget, StreamDefinition } from '../streams.js'

/** Most candles of one answer. */
const candlesPerPage = 1000

/**
 * Asks for the newest candles of each series after every close of its interval and the settle delay.
 * The first answer, and the one after a failure, reach back over what may have been missed.
 */
export function candlePoller<Payload, Row>(
  context: PollContext,
  stream: StreamDefinition<CandleTarget, Payload, Row>,
  settleMs: number,
): Poller<CandleTarget> {
  const { clock, stats, signal } = context
  const exclusive = new Exclusive()
  const answeredAt = new Map<string, TimeMs>()
  let targets: ReadonlyMap<string, CandleTarget> = new Map()

  const pollOne = async (key: string, target: CandleTarget) => {
    const before = answeredAt.get(key)
    const limit = before === undefined ? candlesPerPage : candlesSince(before, clock.now(), target.interval)
    const deadline = clock.monotonicMs() + intervalMs[target.interval]
    const batch = await pollAndStore(context, stream, { ...target, limit }, { signal, deadline })
    // By our clock, as what it is compared with: the service's may be another.
    if (batch !== null) answeredAt.set(key, batch.receivedAt)
  }
  const pollInterval = async (interval: Interval) => {
    if (!(await sleepUntil(clock, clock.now() + settleMs, signal))) return
    for (const [key, target] of targets) {
      if (target.interval !== interval) continue
      if (!exclusive.run(key, () => pollOne(key, target))) stats[stream.name].skippedPolls += 1
    }
  }
  const endings = (Object.keys(closeSchedules) as Interval[]).map((interval) =>
    onSchedule(closeSchedules[interval], () => void pollInterval(interval)),
  )
  return {
    retarget(next) {
      const known = targets
      targets = new Map(next.map((target) => [seriesText(target), target]))
      stats[stream.name].targets = targets.size
      for (const [key, target] of targets) {
        if (!known.has(key)) exclusive.run(key, () => pollOne(key, target))
      }
      for (const key of known.keys()) if (!targets.has(key)) answeredAt.delete(key)
    },
    async stop() {
      for (const end of endings) end()
      await exclusive.idle()
    },
  }
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
}

/** How many candles to ask for so that the answer reaches back to one that was forming at `before`. */
function candlesSince(before: TimeMs, now: TimeMs, interval: Interval): number {
  const spare = 2
  return Math.min(candlesPerPage, Math.ceil(Math.max(0, now - before) / intervalMs[interval]) + spare)
}

function seriesText(target: CandleTarget): string {
  return `${target.category} ${target.symbol} ${target.type} ${target.interval}`
}
