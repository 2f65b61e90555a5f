import { uptime } from 'node:os'
import type { MachineMs } from '../market/values.js'
import { type Ending, onAbort } from './abort.js'

/** The clocks of the program, replaceable together in tests. */
export interface Clock {
  /** Wall-clock time, milliseconds since the Unix epoch: for timestamps. */
  now(): MachineMs
  /** Milliseconds that never run backwards: for durations and pacing. */
  monotonicMs(): number
  /** Milliseconds that never run backwards, and go on while the machine is suspended. Exact to 10 ms, or to a second. */
  uptimeMs(): number
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

/** The beginning of a stretch of time in which the machine may be suspended. No clock that somebody sets measures it. */
export interface StretchStart {
  /** Milliseconds of the monotonic clock, which may stand still while the machine is suspended. */
  readonly ms: number
  readonly uptimeMs: number
}

export function stretchFrom(clock: Clock): StretchStart {
  return { ms: clock.monotonicMs(), uptimeMs: clock.uptimeMs() }
}

/** Returns how long ago a stretch began, by the clock that ran further: one is exact, the other goes on in suspensions. */
export function elapsedMs(clock: Clock, since: StretchStart): number {
  return Math.max(clock.monotonicMs() - since.ms, clock.uptimeMs() - since.uptimeMs)
}

/** Returns how long the machine was suspended between the beginnings of two stretches. */
export function suspendedMs(earlier: StretchStart, later: StretchStart): number {
  return later.uptimeMs - earlier.uptimeMs - (later.ms - earlier.ms)
}

export const systemClock: Clock = {
  now: () => Date.now() as MachineMs,
  monotonicMs: () => performance.now(),
  uptimeMs: () => uptime() * 1000,
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
    const stopTimer = clock.after(ms, () => resolve(late))
    work.then(resolve, reject).finally(stopTimer)
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
