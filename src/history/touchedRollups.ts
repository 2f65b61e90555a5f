import type { Kysely } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError, isLockedError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { refreshRollups } from '../server/timescale/rollups.js'
import type { Slice, SliceResult } from '../ledger/slices.js'

/** Tries of the last refresh. They take ten seconds together, so that the program ends soon. */
const lastTries = 20
const betweenTriesMs = 500

/**
 * Remembers the ranges of written candles that are rolled up. A refresh rolls up all instruments of a range at once.
 * Therefore it is done when no slice is left, not after each slice.
 */
export class TouchedRollups {
  #ranges: TimeRange[] = []

  add(
    { series, ranges }: Pick<Slice, 'series' | 'ranges'>,
    { inserted, updated }: Pick<SliceResult, 'inserted' | 'updated'>,
  ): void {
    if (series.stream === 'candles' && series.type === 'market' && series.interval === '1m' && inserted + updated > 0)
      this.#ranges.push(...ranges)
  }

  /**
   * Never rejects: after a failure the server's own schedule refreshes the ranges. Resolves to false while another
   * refresh is running, such as a scheduled one. The ranges then wait for the next call.
   */
  async refresh(db: Kysely<Database>, logger: Logger): Promise<boolean> {
    const error = await this.#tryRefresh(db)
    if (error === undefined) return true
    if (isLockedError(error)) return false
    this.#leaveToServer(logger, error)
    return true
  }

  /** Refreshes for the last time. While another refresh is running, it retries for up to ten seconds. */
  async refreshAtLast(db: Kysely<Database>, clock: Clock, logger: Logger): Promise<void> {
    for (let triesLeft = lastTries; ; triesLeft--) {
      const error = await this.#tryRefresh(db)
      if (error === undefined) return
      if (triesLeft === 1 || !isLockedError(error)) return this.#leaveToServer(logger, error)
      await clock.sleep(betweenTriesMs)
    }
  }

  async #tryRefresh(db: Kysely<Database>): Promise<unknown> {
    const ranges = this.#ranges
    this.#ranges = []
    try {
      await refreshRollups(db, ranges)
      return undefined
    } catch (error) {
      this.#ranges.push(...ranges)
      return error
    }
  }

  #leaveToServer(logger: Logger, error: unknown): void {
    this.#ranges = []
    logger.warn(`rollups will show what was backfilled within three hours, not now: ${describeDatabaseError(error)}`)
  }
}
