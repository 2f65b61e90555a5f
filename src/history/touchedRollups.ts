import type { Kysely } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError, isLockedError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { refreshRollups } from '../server/timescale/rollups.js'
import type { CandleSlice, SliceResult } from '../ledger/history/candleSlices.js'

/** Ten seconds, together: who waits for the program to end does not wait much longer. */
const lastTries = 20
const betweenTriesMs = 500

/**
 * Remembers where candles were written that are rolled up. A refresh rolls up all instruments of a range at once, so it waits
 * until no slice is left instead of following each.
 */
export class TouchedRollups {
  #ranges: TimeRange[] = []

  add(
    { series, ranges }: Pick<CandleSlice, 'series' | 'ranges'>,
    { inserted, updated }: Pick<SliceResult, 'inserted' | 'updated'>,
  ): void {
    if (series.type === 'market' && series.interval === '1m' && inserted + updated > 0) this.#ranges.push(...ranges)
  }

  /**
   * Never rejects: without it the server's own schedule finds what has changed. False while another refresh is in the way,
   * such as one of that schedule; then the ranges wait for the next call.
   */
  async refresh(db: Kysely<Database>, logger: Logger): Promise<boolean> {
    const error = await this.#tryRefresh(db)
    if (error === undefined) return true
    if (isLockedError(error)) return false
    this.#leaveToServer(logger, error)
    return true
  }

  /** The same for one who will not call again: keeps trying for a while. */
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
