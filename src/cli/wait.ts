import { systemClock } from '../runtime/clock.js'

/** Resolves after `seconds`, or when the signal aborts; without `seconds` only then. */
export async function sleepUnlessStopped(seconds: number | undefined, signal: AbortSignal): Promise<void> {
  // The longest time that a timer can wait; it is started again for as long as it takes.
  const longestMs = 2 ** 31 - 1
  const endAt = seconds === undefined ? Infinity : systemClock.monotonicMs() + seconds * 1000
  while (!signal.aborted && systemClock.monotonicMs() < endAt) {
    const restMs = Math.min(longestMs, endAt - systemClock.monotonicMs())
    await systemClock.sleep(restMs, signal).catch(() => undefined)
  }
}
