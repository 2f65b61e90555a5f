import type { Kysely } from 'kysely'
import type { Config } from '../config/resolve.js'
import { storageOf } from '../config/storageOf.js'
import { hourMs, type TimeMs } from '../market/values.js'
import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import { databaseNow } from '../store/db/databaseNow.js'
import type { Database } from '../store/db/schema.js'
import { applyRetention } from '../store/timescale/retention.js'
import { onSchedule } from './poll/cron.js'

export interface Retention {
  stop(): Promise<void>
}

/** Away from full hours, when candles of all intervals close at once. */
const hourly = '30 23 * * * *'

/** Until the service has responded its clock is not known: it is looked for so often. */
const firstResponseEveryMs = 1_000
/** Clocks further apart than this tell that one of them is wrong, and not which. */
const maxApartMs = hourMs

export interface RetentionDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly incidents: Incidents
  /** What the service's clock shows; null before its first response. */
  readonly serviceNow: () => TimeMs | null
}

/**
 * Removes what is older than the configuration keeps, at the first response of the service and every hour, until it is stopped.
 * What is old is not for this machine's clock alone to say: one that is set months ahead would have it remove everything. So the
 * earliest of three clocks counts, and where they differ by much nothing is removed.
 */
export function startRetention(
  config: Config,
  db: Kysely<Database>,
  { clock, logger, incidents, serviceNow }: RetentionDependencies,
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
      const now = await earliestNow()
      if (now === null) return
      const lines = await applyRetention(db, storageOf(config), now, stopping.signal)
      for (const line of lines) logger.info(line)
    } catch (error) {
      logger.warn(`old rows were not removed, the next attempt is in an hour: ${describeDatabaseError(error)}`)
    }
  }
  /** null when the clocks do not agree, or when it is stopped before the service responds. */
  const earliestNow = async (): Promise<TimeMs | null> => {
    while (serviceNow() === null) {
      if (!(await sleepFor(clock, firstResponseEveryMs, stopping.signal))) return null
    }
    const database = await databaseNow(db)
    const [machine, service] = [clock.now(), serviceNow() ?? NaN]
    const times = [machine, database, service]
    if (Math.max(...times) - Math.min(...times) <= maxApartMs) {
      incidents.succeeded('retention')
      return Math.min(...times)
    }
    const text = (time: TimeMs) => new Date(time).toISOString()
    incidents.failed(
      'retention',
      `nothing old is removed while clocks are more than an hour apart: ${text(machine)} on this machine, ${text(database)} in the database, ${text(service)} at the service; set the one that is wrong`,
    )
    return null
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
