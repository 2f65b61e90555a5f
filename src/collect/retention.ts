import type { Kysely } from 'kysely'
import type { Config } from '../config/resolve.js'
import { storageOf } from '../config/storageOf.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import type { Database } from '../store/db/schema.js'
import { applyRetention } from '../store/timescale/retention.js'
import { onSchedule } from './poll/cron.js'

export interface Retention {
  stop(): Promise<void>
}

/** Away from full hours, when candles of all intervals close at once. */
const hourly = '30 23 * * * *'

/** Removes what is older than the configuration keeps, now and every hour, until it is stopped. */
export function startRetention(
  config: Config,
  db: Kysely<Database>,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Retention {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = () => {
    // A removal that takes longer than an hour goes on; the next one would only wait for it.
    running ??= removeOld().finally(() => {
      running = undefined
    })
  }
  const removeOld = async () => {
    try {
      const lines = await applyRetention(db, storageOf(config), clock.now(), stopping.signal)
      for (const line of lines) logger.info(line)
    } catch (error) {
      logger.warn(`old rows were not removed, the next attempt is in an hour: ${describeDatabaseError(error)}`)
    }
  }
  const stopSchedule = onSchedule(clock, hourly, run)
  run()
  return {
    async stop() {
      stopping.abort()
      stopSchedule()
      await running
    },
  }
}
