import type { MachineMs } from '../market/values.js'
import { type Ending, onAbort } from './abort.js'

/** The two clocks of the program, replaceable together in tests. */
export interface Clock {
  /** Wall-clock time, milliseconds since the Unix epoch: for timestamps. */
  now(): MachineMs
  /** Milliseconds that never run backwards: for durations and pacing. */
  monotonicMs(): number
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: Ending): Promise<void>
  /** Calls `action` after `ms`. The returned function cancels the call. */
  after(ms: number, action: () => void): () => void
}

/** A moment by both clocks. */
export interface Moment {
  /** Milliseconds since the Unix epoch. */
  readonly wall: MachineMs
  /** Milliseconds of the monotonic clock. */
  readonly ms: number
}

/** Longest time that a timer can wait, in milliseconds. A timer with a longer time ends at once. */
export const longestTimerMs = 2 ** 31 - 1

export function momentOf(clock: Clock): Moment {
  return { wall: clock.now(), ms: clock.monotonicMs() }
}

/**
 * Returns how long ago a moment was, by the clock that ran further. The monotonic clock stops on a suspended machine,
 * and the wall clock can be set back.
 */
export function elapsedMs(clock: Clock, since: Moment): number {
  return Math.max(clock.monotonicMs() - since.ms, clock.now() - since.wall)
}

export const systemClock: Clock = {
  now: () => Date.now() as MachineMs,
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error)
        return
      }
      const timer = setTimeout(() => {
        release()
        resolve()
      }, ms)
      const release = onAbort(signal, () => {
        clearTimeout(timer)
        reject(signal?.reason as Error)
      })
    }),
  // Does not use `sleep`. Every request has a timer, and a signal for each takes longer than the timer.
  after: (ms, action) => {
    const timer = setTimeout(action, ms)
    return () => clearTimeout(timer)
  },
}

/**
 * Measures work in milliseconds, for code that yields after some time. It is real time even if a test sets the clock.
 */
export const workedMs = (): number => performance.now()

/** Resolves to true after `ms`, or to false as soon as the signal aborts. */
export async function sleepFor(clock: Clock, ms: number, signal: Ending): Promise<boolean> {
  if (signal.aborted) return false
  try {
    await clock.sleep(Math.max(0, ms), signal)
    return true
  } catch {
    return false
  }
}

/** Resolves with the result of `work`, or with `late` after `ms`. Late work continues, and its failure is ignored. */
export function within<Result, Late>(
  clock: Clock,
  ms: number,
  work: Promise<Result>,
  late: Late,
): Promise<Result | Late> {
  return new Promise((resolve, reject) => {
    const takeBack = clock.after(ms, () => resolve(late))
    work.then(resolve, reject).finally(takeBack)
  })
}

export interface Backoff {
  /** Wait after the first failure, in milliseconds. */
  readonly minMs: number
  readonly maxMs: number
  /** Ratio of each wait to the one before. Default 2. */
  readonly factor?: number
}

/** Returns how long to wait after this number of failures in a row, from 1. */
export function backoffMs(failures: number, { minMs, maxMs, factor = 2 }: Backoff): number {
  return Math.min(maxMs, minMs * factor ** (failures - 1))
}
