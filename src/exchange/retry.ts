import { random } from '../runtime/randomness.js'
import { backoffMs, type Clock, sleepFor } from '../runtime/clock.js'
import { type Ending, endedByEither, LightEnding } from '../runtime/abort.js'
import { ExchangeError } from './errors.js'

export interface RetryPolicy {
  /** Number of attempts, including the first. At least 1. */
  readonly attempts: number
  readonly minDelayMs: number
  readonly maxDelayMs: number
  /** No attempt is sent later than this after the first one was sent. */
  readonly totalMs: number
}

export interface Attempt {
  /** Number of this attempt, from 1. */
  readonly number: number
  /** Aborts when the caller gives up, or when the time for all attempts is over. */
  readonly signal: Ending
  /** Must be called when the attempt is sent, because the time for all attempts runs from the first call. */
  sent(): void
}

/**
 * Calls `attempt` until it succeeds, fails for good, or the policy's attempts or time are used up. It then throws the
 * last `ExchangeError`. Delays grow exponentially with full jitter, so that requests that failed together do not return
 * together.
 *
 * @param onRepeated called with the last failure when a repetition has succeeded
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
  const leftMs = () => policy.totalMs - (clock.monotonicMs() - (firstSentMs ?? clock.monotonicMs()))
  let lastError: ExchangeError | undefined
  for (let number = 1; ; number++) {
    // The first attempt has no time limit here, because the policy's time is for repetitions.
    const timeUp = lastError === undefined ? undefined : new LightEnding()
    const stopTimer = timeUp && clock.after(Math.max(0, leftMs()), () => timeUp.abort())
    try {
      const result = await attempt({ number, signal: endedByEither(signal, timeUp), sent })
      if (lastError !== undefined) onRepeated?.(lastError)
      return result
    } catch (error) {
      // A repetition that was given up tells nothing. The failure that made it necessary is thrown instead.
      const isGivenUp = timeUp?.aborted === true || (error instanceof ExchangeError && error.kind === 'aborted')
      if (isGivenUp && lastError !== undefined) throw lastError
      if (!(error instanceof ExchangeError) || !error.retryable || number >= policy.attempts) throw error
      lastError = error
    } finally {
      stopTimer?.()
    }
    const { minDelayMs: minMs, maxDelayMs: maxMs } = policy
    const delayMs = Math.max(random() * backoffMs(number, { minMs, maxMs }), lastError.retryAfterMs ?? 0)
    if (delayMs >= leftMs()) throw lastError
    if (!(await sleepFor(clock, delayMs, signal))) throw lastError
  }
}
