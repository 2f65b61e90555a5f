import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'
import { type Backoff, backoffMs, type Clock, sleepFor } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../db/databaseError.js'
import type { Series } from '../db/series.js'
import type { NewWant, RepairAttempts } from '../ledger/wants.js'

/** The wait before ranges that a repair did not fill are wanted again. */
const again: Backoff = { minMs: 60_000, maxMs: dayMs, factor: 10 }

/** Returns true if no earlier repair is open, and the last one ended long enough ago. */
export function isDueAgain({ attempts, attemptedAt }: RepairAttempts, now: TimeMs): boolean {
  return attempts === 0 || (attemptedAt !== null && now >= attemptedAt + backoffMs(attempts, again))
}

/** Returns a want for ranges that live recording missed. */
export function repairOf(series: Series, ranges: readonly TimeRange[]): NewWant {
  const floor = ranges[0]?.from ?? 0
  return { kind: 'repair', series, ranges, floor, again: false, isUrgent: false, hasOpenBeginning: false }
}

/** An action that is repeated beside backfills. */
interface Routine {
  /** Ends the repetition and waits for the action that is running. */
  stop(): Promise<void>
}

/** Calls `action` every `everyMs`, the first time after `everyMs`. A failure is logged and does not end the calls. */
export function startRoutine(
  name: string,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  everyMs: number,
  action: () => Promise<unknown>,
): Routine {
  const stopping = new AbortController()
  const running = (async () => {
    while (await sleepFor(clock, everyMs, stopping.signal)) {
      try {
        await action()
      } catch (error) {
        logger.warn(`${name}: ${describeDatabaseError(error)}`)
      }
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}
