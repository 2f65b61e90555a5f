import { parse as parseCron } from 'node-cron'
import { isOfEachDay } from '../collect/poll/cron.js'
import type { StreamStats } from '../collect/streamStats.js'
import type { Config } from '../config/resolve.js'
import { intervalMs } from '../market/candle.js'
import type { StreamName } from '../market/stream.js'
import { dayMs, hourMs, type TimeMs } from '../market/values.js'

/** An age beyond which something is wrong with a stream: two of its periods, and time for a response to come and be stored. */
const graceMs = 30_000

/** The age at which each stream counts as stale, milliseconds; null for streams that are not configured. */
export function freshnessLimits({ streams }: Config): Record<StreamName, number | null> {
  const limit = (isEnabled: boolean, periodMs: number) => (isEnabled ? 2 * periodMs + graceMs : null)
  const { instruments, rpiSymbols, tickers, orderBooks, rpiOrderBooks, fills, candles } = streams
  // Long intervals are looked at every hour all the same.
  const shortest = Math.min(hourMs, ...candles.intervals.map((interval) => intervalMs[interval]))
  return {
    instruments: limit(instruments.enabled, longestPauseMs(instruments.schedule)),
    rpi_symbols: limit(rpiSymbols.enabled, longestPauseMs(rpiSymbols.schedule)),
    tickers: limit(tickers.enabled, longestPauseMs(tickers.schedule)),
    order_books: limit(orderBooks.enabled, orderBooks.everySeconds * 1000),
    rpi_order_books: limit(rpiOrderBooks.enabled, rpiOrderBooks.everySeconds * 1000),
    fills: limit(fills.enabled, fills.maxPollSeconds * 1000),
    candles: limit(candles.enabled, shortest + candles.settleMs),
  }
}

/** The longest time between two matches of a cron expression of six fields. Restricted days count as if they were a month apart. */
export function longestPauseMs(expression: string): number {
  const fields = parseCron(expression)
  if (!isOfEachDay(fields)) return 31 * dayMs
  const times = fields.hour
    .flatMap((hour) =>
      fields.minute.flatMap((minute) => fields.second.map((second) => hour * 3600 + minute * 60 + second)),
    )
    .toSorted((a, b) => a - b)
  const first = times[0] ?? 0
  const pauses = times.map((time, i) => (times[i + 1] ?? first + 86_400) - time)
  return pauses.reduce((longest, pause) => Math.max(longest, pause), 0) * 1000
}

/** How long ago a stream last showed that it works; null when it has not yet. */
export function ageMs({ lastStoredAt, lastIdleAt }: StreamStats, now: TimeMs): number | null {
  const last = Math.max(lastStoredAt ?? -Infinity, lastIdleAt ?? -Infinity)
  return last === -Infinity ? null : Math.max(0, now - last)
}

type Freshness = 'off' | 'idle' | 'starting' | 'fresh' | 'stale'

/** Share of late targets above which the whole stream is stale. Single targets always have troubles of their own. */
const maxLateShare = 0.1

/** The share of targets that were not asked in due time, each by its own rhythm. */
function lateShare({ targets, lateTargets }: Pick<StreamStats, 'targets' | 'lateTargets'>): number {
  return targets === 0 ? 0 : lateTargets / targets
}

/**
 * A stream is as fresh as its targets are: one row a second of a single instrument says nothing of the others.
 *
 * @param limitMs the stream's freshness limit; null when it is not configured
 */
export function freshnessOf(
  stats: StreamStats,
  limitMs: number | null,
  times: { readonly now: TimeMs; readonly startedAt: TimeMs; readonly isCollecting: boolean },
): Freshness {
  if (limitMs === null) return 'off'
  if (times.isCollecting && stats.targets === 0) return 'idle'
  if (times.isCollecting && lateShare(stats) > maxLateShare) return 'stale'
  const age = ageMs(stats, times.now)
  if (age !== null) return age > limitMs ? 'stale' : 'fresh'
  return times.now - times.startedAt > limitMs ? 'stale' : 'starting'
}
