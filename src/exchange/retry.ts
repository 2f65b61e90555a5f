import { random } from '../runtime/randomness.js'
import { backoffMs, type Clock, sleepFor } from '../runtime/clock.js'
import { type Ending, onAbort } from '../runtime/abort.js'
import { ExchangeError } from './errors.js'

export interface RetryPolicy {
  /** Including the first. At least 1. */
  readonly attempts: number
  readonly minDelayMs: number
  readonly maxDelayMs: number
  /** No attempt begins later than this after the first one was sent. */
  readonly totalMs: number
}

export interface Attempt {
  /** 1 for the first. */
  readonly number: number
  /** Aborted when the caller gives up or the time for all attempts is over. */
  readonly signal: Ending
  /** To be called when the attempt is sent: the time for all attempts runs from the first call. */
  sent(): void
}

/**
 * Calls `attempt` until it succeeds, fails for good, or the policy's attempts or time are used up; throws the last
 * `ExchangeError` then. Delays grow exponentially with full jitter, so that many who failed together don't return together.
 *
 * @param onRepeated told of the last failure when a repetition has succeeded
 */
export async function withRetries<T>(
  clock: Clock,
  policy: RetryPolicy,
  signal: Ending,
  attempt: (attempt: Attempt) => Promise<T>,
  onRepeated?: (error: ExchangeError) => void,
): Promise<T> {
  let firstSentMs: number | undefined
  const sent = () => {
    firstSentMs ??= clock.monotonicMs()
  }
  let lastError: ExchangeError | undefined
  for (let number = 1; ; number++) {
    const deadline = lastError === undefined ? undefined : startDeadline(clock, policy, firstSentMs, signal)
    try {
      const result = await attempt({ number, signal: deadline?.signal ?? signal, sent })
      if (lastError !== undefined) onRepeated?.(lastError)
      return result
    } catch (error) {
      // The repetition was given up before it departed or ended: what made it necessary is the news.
      const isGivenUp = deadline?.isOver() === true || (error instanceof ExchangeError && error.kind === 'aborted')
      if (isGivenUp && lastError !== undefined) throw lastError
      if (!(error instanceof ExchangeError) || !error.retryable || number >= policy.attempts) throw error
      lastError = error
    } finally {
      deadline?.stop()
    }
    const leftMs = policy.totalMs - (clock.monotonicMs() - (firstSentMs ?? clock.monotonicMs()))
    const { minDelayMs: minMs, maxDelayMs: maxMs } = policy
    const delayMs = Math.max(random() * backoffMs(number, { minMs, maxMs }), lastError.retryAfterMs ?? 0)
    if (delayMs >= leftMs) throw lastError
    if (!(await sleepFor(clock, delayMs, signal))) throw lastError
  }
}

/** A signal that follows `outer` and is aborted, too, when the time for all attempts is over. */
function startDeadline(clock: Clock, policy: RetryPolicy, firstSentMs: number | undefined, outer: Ending) {
  const controller = new AbortController()
  const sleeper = new AbortController()
  let isOver = false
  const follow = () => controller.abort(outer.reason)
  const forgetSignal = onAbort(outer, follow)
  if (outer.aborted) follow()
  const nowMs = clock.monotonicMs()
  const leftMs = Math.max(0, policy.totalMs - (nowMs - (firstSentMs ?? nowMs)))
  const expire = async () => {
    try {
      await clock.sleep(leftMs, sleeper.signal)
    } catch {
      return
    }
    isOver = true
    controller.abort(new Error('no time left to retry'))
  }
  void expire()
  return {
    signal: controller.signal,
    isOver: () => isOver,
    stop: () => {
      sleeper.abort()
      forgetSignal()
    },
  }
}
