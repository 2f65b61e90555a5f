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
  const end = () => process.stdout.writableLength === 0 && endNow()
  setInterval(end, timeoutMs).unref()
}

/** Ends the process after so long, whatever it does then; the result takes that back. */
export function endBy(timeoutMs: number): () => void {
  const end = () => {
    process.stderr.write(`error: not everything ended within ${timeoutMs / 1000} s; the process ends now\n`)
    endNow(1)
  }
  const timer = setTimeout(end, timeoutMs).unref()
  return () => clearTimeout(timer)
}

function endNow(code?: number): void {
  // An exit waits for threads, and a look-up holds one for as long as the resolver is silent. A signal does not wait.
  if (process.getActiveResourcesInfo().includes('GetAddrInfoReqWrap')) {
    process.removeAllListeners('SIGTERM')
    process.kill(process.pid, 'SIGTERM')
  }
  process.exit(code)
}
