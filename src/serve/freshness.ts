import { longestPauseMs } from '../collect/schedule/cron.js'
import type { StreamStats } from '../collect/streams/stream.js'
import { type AnyStream, enabledStreams } from '../collect/streams/streams.js'
import type { Config } from '../config/resolve.js'
import { byStream, type StreamName } from '../market/stream.js'
import type { MachineMs } from '../market/values.js'

/** Time for a response to arrive and be stored. It is part of the age at which a stream counts as stale. */
const graceMs = 30_000

/** Returns the age at which each stream counts as stale, in milliseconds; null for streams that are not enabled. */
export function freshnessLimits(config: Config): Record<StreamName, number | null> {
  const enabled = new Map(enabledStreams(config).map((stream) => [stream.name, stream]))
  return byStream((name) => {
    const stream = enabled.get(name)
    return stream === undefined ? null : 2 * periodMs(stream, config) + graceMs
  })
}

/** Returns the longest normal time between two responses of a stream. */
function periodMs(stream: AnyStream, config: Config): number {
  if (stream.kind === 'lists') return longestPauseMs(stream.schedule(config))
  const trigger = stream.trigger(config)
  switch (trigger.kind) {
    case 'cycle':
      return trigger.everyMs
    case 'overlap':
      return trigger.maxPollMs
    case 'candle-close':
      return trigger.shortestMs + trigger.settleMs
  }
}

/** Returns how long ago a stream last showed that it works; null if it has not done so yet. */
export function ageMs({ lastStoredAt, lastIdleAt }: StreamStats, now: MachineMs): number | null {
  const last = Math.max(lastStoredAt ?? -Infinity, lastIdleAt ?? -Infinity)
  return last === -Infinity ? null : Math.max(0, now - last)
}

type Freshness = 'off' | 'idle' | 'starting' | 'fresh' | 'stale' | 'failing'

/** Share of late targets above which the whole stream is stale. Single targets often have troubles of their own. */
const maxLateShare = 0.1

/**
 * Returns how fresh a stream is. All targets count, because one instrument says nothing about the others.
 *
 * @param limitMs age at which the stream is stale; null if it is not enabled
 */
export function freshnessOf(
  stats: StreamStats,
  limitMs: number | null,
  times: {
    readonly now: MachineMs
    readonly startedAt: MachineMs
    readonly isCollecting: boolean
    /** True if nothing usable comes for a category of the stream. */
    readonly isFailing: boolean
    /** True while the database is away and responses go to the disk. The last stored one then tells nothing. */
    readonly isByDisk: boolean
  },
): Freshness {
  if (limitMs === null) return 'off'
  if (times.isFailing) return 'failing'
  if (times.isCollecting && stats.targets === 0) return 'idle'
  if (times.isCollecting && stats.lateTargets > maxLateShare * stats.targets) return 'stale'
  if (times.isByDisk && stats.responses > 0) return 'fresh'
  const age = ageMs(stats, times.now)
  if (age !== null) return age > limitMs ? 'stale' : 'fresh'
  return times.now - times.startedAt > limitMs ? 'stale' : 'starting'
}
