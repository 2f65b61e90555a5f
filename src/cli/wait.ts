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

/** Ends a process whose work is done but that something keeps, such as a log that nobody reads. Output that is still read is waited for. */
export function endWithin(timeoutMs: number): void {
  const end = () => process.stdout.writableLength === 0 && process.exit()
  setInterval(end, timeoutMs).unref()
}
