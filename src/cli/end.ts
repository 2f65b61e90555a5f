import { longestTimerMs, systemClock } from '../runtime/clock.js'
import { tell } from './output.js'

export const exitCodes = { done: 0, failed: 1, wrongUsage: 2 } as const

/** A failure that was already reported. The program only has to end with its exit code. */
export class Failed extends Error {
  constructor(readonly exitCode: number = exitCodes.failed) {
    super('the command failed')
  }
}

/** Prints the problems of a command that did the rest. The program then ends as a failure. */
export function reportProblems(problems: readonly string[]): void {
  for (const problem of problems) tell(`error: ${problem}`)
  if (problems.length > 0) process.exitCode = exitCodes.failed
}

/** A failure at a position in the input. The lines of `excerpt` follow the message. */
export class FailedAt extends Error {
  constructor(
    message: string,
    readonly excerpt: readonly string[],
    options: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Returns the error of a resumable command. After a stop, prints advice and returns `Failed` instead. */
export function failedOrStopped(error: unknown, stop: AbortSignal): unknown {
  if (!stop.aborted) return error
  tell('stopped: the same command goes on from here')
  return new Failed()
}

/** Resolves after `seconds`, or when the signal aborts. Without `seconds`, only an abort ends it. */
export async function sleepUnlessStopped(seconds: number | undefined, signal: AbortSignal): Promise<void> {
  const endAt = seconds === undefined ? Infinity : systemClock.monotonicMs() + seconds * 1000
  while (!signal.aborted && systemClock.monotonicMs() < endAt) {
    // A timer has a maximum, so a longer sleep starts several in turn.
    const restMs = Math.min(longestTimerMs, endAt - systemClock.monotonicMs())
    await systemClock.sleep(restMs, signal).catch(() => undefined)
  }
}

/** Ends a finished process, even if a blocked log keeps it alive. Waits while its output is still read. */
export function endWithin(timeoutMs: number): void {
  const end = () => process.stdout.writableLength === 0 && endNow()
  setInterval(end, timeoutMs).unref()
}

/** Ends the process after this time, whatever it is doing. The returned function cancels that. */
export function endBy(timeoutMs: number): () => void {
  const end = () => {
    tell(`error: not everything ended within ${timeoutMs / 1000} s; the process ends now`)
    endNow(1)
  }
  const timer = setTimeout(end, timeoutMs).unref()
  return () => clearTimeout(timer)
}

function endNow(code?: number): void {
  // An exit waits for threads, and a look-up holds one while the resolver is silent. A signal does not wait.
  if (process.getActiveResourcesInfo().includes('GetAddrInfoReqWrap')) {
    process.removeAllListeners('SIGTERM')
    process.kill(process.pid, 'SIGTERM')
  }
  process.exit(code)
}
