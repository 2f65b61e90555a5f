import { type Kysely, sql } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { instrumentStream, ofSeries } from '../db/series.js'
import { addCoverage, gapRange, multirange } from './verdicts.js'
import type { Category } from '../market/category.js'

/** A minute of an instrument whose claim was withdrawn. */
export interface WithdrawnMinute {
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

/** Few enough that the database has judged them long before it gives up a statement. */
const gapsPerLook = 500

/** Goes through the next gaps. Those that were none are taken back, and their stretches are proven by that. */
export async function dismissEmptyGaps(
  db: Kysely<Database>,
  { since, after }: { readonly since: TimeMs; readonly after: number },
): Promise<{ readonly dismissed: number; readonly last: number | null }> {
  const { empty, last } = await judgeFillGaps(db, { since, after, limit: gapsPerLook })
  for (const gap of empty) {
    await db.transaction().execute(async (trx) => {
      // The coverage first, as those do that store fills: in another order two transactions could wait for each other.
      await addCoverage(trx, instrumentStream('fills', gap), [gap.range])
      await removeGap(trx, gap)
    })
  }
  return { dismissed: empty.length, last }
}

/** A gap in fills that turned out to be none. */
interface EmptyGap {
  readonly category: Category
  readonly symbol: string
  readonly range: TimeRange
}

interface JudgedGaps {
  /** Those in which nothing was lost. They are still there. */
  readonly empty: readonly EmptyGap[]
  /** The last gap that was looked at; null when there is none after it to look at. */
  readonly last: number | null
}

/**
 * Judges gaps in fills that nobody has judged yet, in the order of their numbers: nothing was lost in one whose every minute
 * has a closed candle with exactly the volume of the stored fills. Two responses may adjoin without sharing a fill, which looks
 * like a gap. The others are marked as judged, so that each is compared once, however many there are. A gap waits while a minute
 * has no closed candle, and while fills of its minutes may still be on their way to the database.
 *
 * @param since those found earlier have waited for their candles for long enough
 * @param after the number after which to begin
 */
export async function judgeFillGaps(
  db: Kysely<Database>,
  { since, after, limit }: { readonly since: TimeMs; readonly after: number; readonly limit: number },
): Promise<JudgedGaps> {
  const { rows } = await sql<{
    id: number
    category: Category
    symbol: string
    from: TimeMs
    to: TimeMs
    isEmpty: boolean
  }>`
    with due as materialized (
      select id, category, symbol, ${gapRange} as range,
        -- Longer ones are not two responses that adjoin.
        noted_at < ${instant(since)} or gap_until - part >= interval '1 hour' as is_given_up
      from recorder.known
      where stream = 'fills' and verdict in ('missing', 'lost') and judged_at is null and id > ${after}
      order by id limit ${limit}
    ), looked as materialized (
      select due.*, coalesce(m.is_empty, false) as is_empty,
        due.is_given_up or (m.has_candles and not m.is_empty and coalesce(
          (select upper(v.ranges) from recorder.known v
            where v.stream = 'fills' and v.category = due.category and v.symbol = due.symbol and v.type = '' and v.interval = ''
              and v.verdict = 'recorded' and not isempty(v.ranges)
            order by v.part desc limit 1)
          >= m.ends_at, false)) as is_judged
      from due left join lateral (
        select bool_and(volume is not null) as has_candles, bool_and(volume is not null and volume = size) as is_empty,
          max(minute) + interval '1 minute' as ends_at
        from recorder.fill_minutes(due.category, due.symbol, date_trunc('minute', lower(due.range), 'UTC'), upper(due.range))
        where not due.is_given_up
      ) m on true
    ), judged as (
      update recorder.known g set judged_at = now() from looked
      where g.id = looked.id and g.stream = 'fills' and g.category = looked.category and g.symbol = looked.symbol
        and g.type = '' and g.interval = '' and g.verdict in ('missing', 'lost') and g.part = lower(looked.range) and looked.is_judged
    )
    select id, category, symbol, lower(range) as "from", upper(range) as "to", is_empty as "isEmpty"
    from looked order by id`.execute(db)
  return {
    empty: rows
      .filter(({ isEmpty }) => isEmpty)
      .map(({ category, symbol, from, to }) => ({ category, symbol, range: { from, to } })),
    last: rows.length < limit ? null : (rows.at(-1)?.id ?? null),
  }
}

/** Takes a gap back. */
async function removeGap(db: Kysely<Database>, { range, ...instrument }: EmptyGap): Promise<void> {
  await db
    .deleteFrom('recorder.known')
    .where(ofSeries(instrumentStream('fills', instrument)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('part', '=', instant(range.from))
    .where('ranges', '=', multirange([range]))
    .execute()
}
