import { random } from '../runtime/randomness.js'
import { backoffMs, type Clock, sleepFor } from '../runtime/clock.js'
import { type Ending, endedByEither, LightEnding } from '../runtime/abort.js'
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
  const leftMs = () => policy.totalMs - (clock.monotonicMs() - (firstSentMs ?? clock.monotonicMs()))
  let lastError: ExchangeError | undefined
  for (let number = 1; ; number++) {
    // The first attempt may take longer: the time is for repetitions.
    const timeUp = lastError === undefined ? undefined : new LightEnding()
    const stopTimer = timeUp && clock.after(Math.max(0, leftMs()), () => timeUp.abort())
    try {
      const result = await attempt({ number, signal: endedByEither(signal, timeUp), sent })
      if (lastError !== undefined) onRepeated?.(lastError)
      return result
    } catch (error) {
      // The repetition was given up before it departed or ended: what made it necessary is the news.
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
