import { type Kysely, sql } from 'kysely'
import { callFunction } from '../db/database.js'
import type { Database, GapState } from '../db/schema.js'
import { addingRanges, type Series, seriesValues } from '../db/series.js'
import type { ServiceMs } from '../market/values.js'
import { addKnown, knownOf } from './verdicts.js'

/** A range as the archive stores it: times as text with microseconds. */
type TextRange = readonly [string, string]

interface ArchivedGap {
  readonly from: string
  readonly to: string
  readonly reason: string
  readonly state: GapState
  readonly detectedAt: string
  readonly repairedAt: string | null
  readonly lostAt: string | null
}

/** Restores the ranges in which a series had no rows, in their original parts. Existing knowledge stays. */
export async function restoreSilence(
  db: Kysely<Database>,
  series: Series,
  known: {
    readonly empty: readonly TextRange[]
    readonly noTrade: readonly TextRange[]
    readonly noTradeConfirmed: readonly TextRange[]
  },
): Promise<void> {
  const { stream, category, symbol, type, interval } = series
  if (known.empty.length > 0) await addKnown(db, series, 'before the beginning', multirangeOf(known.empty))
  if (known.noTrade.length === 0) return
  const confirmed = multirangeOf(known.noTradeConfirmed)
  await sql`
    insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, part, ranges)
    select ${stream}, ${category}::market.category, ${symbol}, ${type}, ${interval}, verdict, date_bin(market.interval_length(${interval}::market.candle_interval) * 1440, lower(r),
      timestamptz 'epoch') as begins, range_agg(r)
    from (
      select 'no trade' as verdict, unnest(${confirmed}::tstzmultirange) as r
      union all
      select 'silent', unnest(${multirangeOf(known.noTrade)}::tstzmultirange - ${confirmed}::tstzmultirange)
    ) as archived
    group by verdict, begins ${addingRanges}`.execute(db)
}

/**
 * Restores gaps. A gap that is already known stays as it is, even if it was longer when it was archived. The rest has
 * been recorded since.
 */
export async function restoreGaps(db: Kysely<Database>, series: Series, gaps: readonly ArchivedGap[]): Promise<void> {
  for (const { from, to, reason, state, detectedAt, repairedAt, lostAt } of gaps) {
    const verdict = state === 'open' ? 'missing' : state
    const known = await db
      .selectFrom('recorder.ledger')
      .select('id')
      .where(knownOf(series, verdict))
      .where('part', '=', sql<ServiceMs>`${from}::timestamptz`)
      .executeTakeFirst()
    if (known !== undefined) continue
    const range = verdict === 'repaired' ? multirangeOf([[from, to]]) : await unknownPart(db, series, [from, to])
    const settledAt = repairedAt ?? lostAt
    await callFunction(db, 'recorder.note_gaps', ...seriesValues(series), verdict, range, reason, detectedAt, settledAt)
  }
}

/** Resolves to the part of a gap that the database does not know. The gap may have been closed since it was archived. */
async function unknownPart(db: Kysely<Database>, series: Series, range: TextRange): Promise<string> {
  const { rows } = await sql<{ rest: string }>`
    select (given.ranges - coalesce((
      select range_agg(r) from recorder.ledger k cross join lateral unnest(k.ranges) as r
      where ${knownOf(series, 'recorded', 'k')} and k.ranges && given.ranges), '{}'))::text as rest
    from (select ${multirangeOf([range])}::tstzmultirange as ranges) as given
    where not exists (
      select from recorder.ledger k
      where ${knownOf(series, 'repaired', 'k')} and k.part = lower(given.ranges) and k.ranges = given.ranges)`.execute(
    db,
  )
  return rows[0]?.rest ?? '{}'
}

function multirangeOf(ranges: readonly TextRange[]): string {
  return `{${ranges.map(([from, to]) => `["${from}","${to}")`).join(',')}}`
}
