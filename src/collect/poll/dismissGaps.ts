import { type Kysely, sql } from 'kysely'
import { addCoverage } from '../../ledger/verdicts.js'
import { judgeFillGaps, removeGap } from '../../ledger/gaps.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import type { Category } from '../../market/category.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { sleepFor } from '../../runtime/clock.js'
import type { PollContext } from './pollAndStore.js'
import { messageOf } from '../../runtime/text.js'

const everyMs = 20_000
/** Older ones have waited for their candles for long enough. */
const lookbackMs = dayMs
/** Few enough that the database has judged them long before it gives up a statement. */
const gapsPerLook = 500

/**
 * Compares fills with closed candles from time to time, until `signal` aborts: takes back gaps in which nothing was lost, and
 * withdraws claims of minutes in which more was traded than is stored.
 */
export async function keepDismissingGaps(
  db: Kysely<Database>,
  {
    clock,
    logger,
    incidents,
    signal,
    isOwn,
  }: Pick<PollContext, 'clock' | 'logger' | 'incidents' | 'signal'> & { readonly isOwn: () => boolean },
): Promise<void> {
  let after = 0
  while (await sleepFor(clock, everyMs, signal)) {
    // One of all recorders does it.
    if (!isOwn()) continue
    try {
      const { dismissed, last } = await dismissEmptyGaps(db, { since: clock.now() - lookbackMs, after })
      // After the last one it begins again: gaps wait for their candles.
      after = last ?? 0
      const withdrawn = await auditFills(db, { since: clock.now() - lookbackMs, at: clock.now() })
      if (withdrawn.length === 0) incidents.succeeded('fills audit')
      else incidents.failed('fills audit', describeWithdrawn(withdrawn))
      if (dismissed > 0) logger.info(`fills: ${dismissed} gap(s) removed: the candles show that nothing was lost`)
    } catch (error) {
      // The database is away, or busy: nothing is lost by looking again later.
      logger.debug(`fills: gaps could not be looked through: ${messageOf(error)}`)
    }
  }
}

/** A minute of an instrument whose claim was withdrawn. */
interface WithdrawnMinute {
  readonly category: Category
  readonly symbol: string
  readonly minute: TimeMs
}

/**
 * Compares claims with candles that have come since the last time, and withdraws those of minutes that lack fills.
 *
 * @param since claims of older minutes have waited for their candles for long enough
 */
export async function auditFills(
  db: Kysely<Database>,
  { since, at }: { readonly since: TimeMs; readonly at: TimeMs },
): Promise<WithdrawnMinute[]> {
  const { rows } = await sql<WithdrawnMinute>`
    select category, symbol, minute from recorder.audit_fills(${toDate(since)}, ${toDate(at)})`.execute(db)
  return rows
}

function describeWithdrawn(minutes: readonly WithdrawnMinute[]): string {
  const shown = minutes.slice(0, 3).map(({ category, symbol, minute }) => {
    return `${category} ${symbol} ${new Date(minute).toISOString().slice(0, 16)}`
  })
  const others = minutes.length > shown.length ? ` and ${minutes.length - shown.length} more` : ''
  return `candles show more than the stored fills in ${shown.join(', ')}${others}; these minutes are gaps now`
}

/** Goes through the next gaps. Those that were none are taken back, and their stretches are proven by that. */
export async function dismissEmptyGaps(
  db: Kysely<Database>,
  { since, after }: { readonly since: TimeMs; readonly after: number },
): Promise<{ readonly dismissed: number; readonly last: number | null }> {
  const { empty, last } = await judgeFillGaps(db, { since, after, limit: gapsPerLook })
  for (const gap of empty) {
    const { category, symbol, range } = gap
    await db.transaction().execute(async (trx) => {
      // The coverage first, as those do that store fills: in another order two transactions could wait for each other.
      await addCoverage(trx, { stream: 'fills', category, symbol, type: null, interval: null }, [range])
      await removeGap(trx, gap)
    })
  }
  return { dismissed: empty.length, last }
}
