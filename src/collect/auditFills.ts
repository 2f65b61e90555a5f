import type { Kysely } from 'kysely'
import type { Database } from '../db/schema.js'
import { auditFills, dismissEmptyGaps, type WithdrawnMinute } from '../ledger/fillAudit.js'
import { addMs, asIfService, dayMs } from '../market/values.js'
import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import { messageOf } from '../runtime/text.js'

/** Time between two comparisons of fills with candles. */
const auditEveryMs = 20_000
/** Older gaps and minutes are no longer compared: after a day, their missing candles will hardly come. */
const lookbackMs = dayMs

interface AuditOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly incidents: Incidents
  readonly signal: AbortSignal
  /** Returns true if this recorder compares. One recorder of a fleet does. */
  readonly isOwn: () => boolean
}

/**
 * Compares fills with closed candles every 20 s, until `signal` aborts. Removes gaps in which nothing was lost.
 * Withdraws the coverage of minutes in which more was traded than is stored.
 */
export async function keepAuditingFills(
  db: Kysely<Database>,
  { clock, logger, incidents, signal, isOwn }: AuditOptions,
): Promise<void> {
  let after = 0
  while (await sleepFor(clock, auditEveryMs, signal)) {
    if (!isOwn()) continue
    try {
      const { dismissed, last } = await dismissEmptyGaps(db, {
        since: addMs(asIfService(clock.now()), -lookbackMs),
        after,
      })
      // After the last gap, the next round begins at the first one again: some gaps still wait for their candles.
      after = last ?? 0
      const withdrawn = await auditFills(db, {
        since: addMs(asIfService(clock.now()), -lookbackMs),
        at: asIfService(clock.now()),
      })
      if (withdrawn.length === 0) incidents.succeeded('fills audit')
      else incidents.failed('fills audit', describeWithdrawn(withdrawn))
      if (dismissed > 0) logger.info(`fills: ${dismissed} gap(s) removed: the candles show that nothing was lost`)
    } catch (error) {
      // The database is away or busy. Comparing later loses nothing.
      logger.debug(`fills: gaps could not be looked through: ${messageOf(error)}`)
    }
  }
}

function describeWithdrawn(minutes: readonly WithdrawnMinute[]): string {
  const shown = minutes.slice(0, 3).map(({ category, symbol, minute }) => {
    return `${category} ${symbol} ${new Date(minute).toISOString().slice(0, 16)}`
  })
  const others = minutes.length > shown.length ? ` and ${minutes.length - shown.length} more` : ''
  return `candles show more than the stored fills in ${shown.join(', ')}${others}; these minutes are gaps now`
}
