import { createEstimator } from '../history/estimator.js'
import type { Progress } from '../history/progress.js'
import type { Clock } from '../runtime/clock.js'
import { grouped } from '../runtime/figures.js'
import { bar, progressLine } from './progressLine.js'

export interface ProgressDisplay {
  update(progress: Progress): void
  close(): void
}

export interface ProgressOptions {
  /** Candles to get. */
  readonly total: number
  readonly clock: Clock
  /** Another process on this host does the work. */
  readonly isHandedOver: boolean
}

/** Shows how far the work has come, see `progressLine`. */
export function openProgress({ total, clock, isHandedOver }: ProgressOptions): ProgressDisplay {
  if (isHandedOver) process.stderr.write('the recorder on this host is doing the work; showing its progress\n')
  const describe = createDescriber(total, clock)
  const line = progressLine()
  return {
    update(progress) {
      const text = describe(progress)
      const share = total === 0 ? 1 : Math.max(0, 1 - progress.left / total)
      line.show(() => (process.stderr.isTTY ? `${bar(share, 1)} ${Math.floor(share * 100)} % · ${text}` : text))
    },
    close: () => line.end(),
  }
}

function createDescriber(total: number, clock: Clock): (progress: Progress) => string {
  const estimate = createEstimator(clock)
  return ({ left, reachedAt, wants, wantsEnded }) => {
    const speed = estimate(left)
    return [
      `${grouped(total - left)} of ${grouped(total)} candles`,
      speed === null ? 'waiting' : `${grouped(Math.round(speed.perSecond))}/s`,
      ...(speed === null || left === 0 ? [] : [`${duration(speed.etaMs / 1000)} to go`]),
      ...(reachedAt === null ? [] : [`back to ${new Date(reachedAt).toISOString().slice(0, 16)}`]),
      `series ${Math.min(wants, wantsEnded + 1)} of ${wants}`,
    ].join(' · ')
  }
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  if (seconds < 5_400) return `${Math.ceil(seconds / 60)} min`
  return `${(seconds / 3_600).toFixed(1)} h`
}
