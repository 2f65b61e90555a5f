import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../db/databaseError.js'

/** An action that is repeated beside backfills. */
export interface Routine {
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
