import { longestTimerMs, systemClock } from '../runtime/clock.js'

/** Resolves after `seconds`, or when the signal aborts; without `seconds` only then. */
export async function sleepUnlessStopped(seconds: number | undefined, signal: AbortSignal): Promise<void> {
  const endAt = seconds === undefined ? Infinity : systemClock.monotonicMs() + seconds * 1000
  while (!signal.aborted && systemClock.monotonicMs() < endAt) {
    // It is started again for as long as it takes.
    const restMs = Math.min(longestTimerMs, endAt - systemClock.monotonicMs())
    await systemClock.sleep(restMs, signal).catch(() => undefined)
  }
}
