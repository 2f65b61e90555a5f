import type { Kysely } from 'kysely'
import { type CandleSeries, closeTime, seriesText } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { Logger } from '../runtime/logger.js'
import {
  addRestatement,
  joinRestatement,
  lastRevision,
  openRevisions,
  recentRestatements,
  type Fraction,
  type OpenRevision,
} from '../ledger/restatements.js'
import type { Database } from '../db/schema.js'
import { commonFactor, explainedBy } from './factor.js'

/**
 * Checks in the latest changes of a series whether the service has rewritten its history. If so, they are recorded as
 * one restatement, and the old values stay in the revisions. Resolves to the factor of a new restatement, else to null.
 * Call it in a transaction.
 *
 * @param before the last revision before the reading
 */
export async function foldRestatement(
  db: Kysely<Database>,
  series: CandleSeries,
  before: number,
  logger: Logger,
): Promise<Fraction | null> {
  if ((await lastRevision(db)) <= before) return null
  let open: readonly OpenRevision[] = await openRevisions(db, series)
  for (const { id, ...factor } of await recentRestatements(db, series)) {
    const more = explainedBy(open, factor)
    if (more.length === 0) continue
    await joinRestatement(db, id, idsOf(more), rangeOf(series, more))
    open = without(open, more)
  }
  const found = commonFactor(open.filter(({ id }) => id > before))
  if (found === null) return null
  const explained = explainedBy(open, found.factor)
  const range = rangeOf(series, explained)
  const id = await addRestatement(db, series, range, found.factor)
  await joinRestatement(db, id, idsOf(explained), range)
  const { numerator, denominator } = found.factor
  logger.warn(
    `${seriesText(series)}: the service has rewritten its history: prices times ${numerator}/${denominator}; ` +
      'all of it will be fetched again, see market.restatements',
  )
  return found.factor
}

function without(revisions: readonly OpenRevision[], some: readonly OpenRevision[]): OpenRevision[] {
  const ids = new Set(idsOf(some))
  return revisions.filter(({ id }) => !ids.has(id))
}

function idsOf(revisions: readonly OpenRevision[]): number[] {
  return revisions.map(({ id }) => id)
}

function rangeOf({ interval }: CandleSeries, revisions: readonly OpenRevision[]): TimeRange {
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { openTime } of revisions) {
    from = Math.min(from, openTime)
    to = Math.max(to, closeTime(openTime, interval))
  }
  return { from, to }
}
