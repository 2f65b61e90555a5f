import { backoffMs } from '../../runtime/backoff.js'
import type { Clock } from '../../runtime/clock.js'
import { random } from '../../runtime/randomness.js'
import { kindOf } from './errors.js'

export interface Patience {
  /** After the first failure; each wait is twice as long as the one before, and a random part shorter. */
  readonly minMs: number
  readonly maxMs: number
  /** No attempt begins later than this after the first failure. */
  readonly totalMs: number
}

const usual: Patience = { minMs: 250, maxMs: 20_000, totalMs: 300_000 }

/** The one policy for what passes by itself: a server that is away, busy or cuts connections. Throws the last error. */
export async function retrying<Result>(
  clock: Clock,
  work: () => Promise<Result>,
  { signal, patience = usual }: { readonly signal: AbortSignal; readonly patience?: Patience | undefined },
): Promise<Result> {
  let firstFailureMs: number | undefined
  for (let failures = 1; ; failures++) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      const kind = kindOf(error)
      firstFailureMs ??= clock.monotonicMs()
      const delayMs = backoffMs(failures, patience) * (0.5 + random() / 2)
      const isOver = clock.monotonicMs() - firstFailureMs + delayMs > patience.totalMs
      // The SDK has learned the server's time from the refusal, and signs with it from then on.
      const isPassing = kind === 'passing' || (kind === 'clock' && failures === 1)
      if (!isPassing || isOver) throw error
      await clock.sleep(delayMs, signal)
    }
  }
}
