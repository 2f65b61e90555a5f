import type { Kysely } from 'kysely'
import type { TimeRange } from '../../market/timeRange.js'
import type { Logger } from '../../runtime/logger.js'
import { describeDatabaseError } from '../../store/databaseError.js'
import type { Database } from '../../store/schema.js'
import { refreshRollups } from '../../store/timescale/rollups.js'
import type { BackfillJob, JobOutcome } from './job.js'

/**
 * Remembers where candles were written that are rolled up. A refresh rolls up all instruments of a range at once, so it waits
 * until no job is left instead of following each.
 */
export class TouchedRollups {
  #ranges: TimeRange[] = []

  add({ series, range }: BackfillJob, { inserted, updated }: Pick<JobOutcome, 'inserted' | 'updated'>): void {
    if (series.type === 'market' && series.interval === '1m' && inserted + updated > 0) this.#ranges.push(range)
  }

  /** Never rejects: without it the server's own schedule finds what has changed. */
  async refresh(db: Kysely<Database>, logger: Logger): Promise<void> {
    const ranges = this.#ranges
    this.#ranges = []
    try {
      await refreshRollups(db, ranges)
    } catch (error) {
      logger.warn(`rollups will show what was backfilled within the hour, not now: ${describeDatabaseError(error)}`)
    }
  }
}
