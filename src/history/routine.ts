import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../db/databaseError.js'

/** What is done again and again beside backfills. */
export interface Routine {
  /** Waits for what is under way. */
  stop(): Promise<void>
}

/** Calls `action` every `everyMs`, the first time after that; when it fails, the next time is soon enough. */
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
