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
 * Compares coverage of fills with new candles. Withdraws the coverage of minutes that lack fills.
 *
 * @param since minutes before this time no longer wait for their candles
 */
export async function auditFills(
  db: Kysely<Database>,
  { since, at }: { readonly since: TimeMs; readonly at: TimeMs },
): Promise<WithdrawnMinute[]> {
  const { rows } = await sql<WithdrawnMinute>`
    select category, symbol, minute from recorder.audit_fills(${toDate(since)}, ${toDate(at)})`.execute(db)
  return rows
}

/** Number of gaps per statement. The database judges this many long before a statement times out. */
const gapsPerLook = 500

/** Judges the next gaps. Removes gaps in which no fill was lost, and records their ranges as proven. */
export async function dismissEmptyGaps(
  db: Kysely<Database>,
  { since, after }: { readonly since: TimeMs; readonly after: number },
): Promise<{ readonly dismissed: number; readonly last: number | null }> {
  const { empty, last } = await judgeFillGaps(db, { since, after, limit: gapsPerLook })
  for (const gap of empty) {
    await db.transaction().execute(async (trx) => {
      // Adds the coverage first, as the writers of fills do. In another order two transactions could deadlock.
      await addCoverage(trx, instrumentStream('fills', gap), [gap.range])
      await removeGap(trx, gap)
    })
  }
  return { dismissed: empty.length, last }
}

/** A gap between fills in which no fill was lost. */
interface EmptyGap {
  readonly category: Category
  readonly symbol: string
  readonly range: TimeRange
}

interface JudgedGaps {
  /** Gaps in which no fill was lost. They are still stored. */
  readonly empty: readonly EmptyGap[]
  /** Number of the last judged gap; null if no gap is left after it. */
  readonly last: number | null
}

/**
 * Judges gaps in fills that nobody has judged yet, in the order of their numbers. No fill was lost if each minute has
 * a closed candle with exactly the volume of its stored fills. Such a gap appears when two responses adjoin
 * without a shared fill. Other gaps are marked as judged, so that each is compared only once. A gap waits while a
 * minute has no closed candle, and while fills of its minutes may still arrive.
 *
 * @param since gaps found before this time no longer wait for their candles
 * @param after the number of the gap before the first one to judge
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
        -- Longer gaps do not come from two responses that adjoin.
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

/** Deletes a gap in which no fill was lost. */
async function removeGap(db: Kysely<Database>, { range, ...instrument }: EmptyGap): Promise<void> {
  await db
    .deleteFrom('recorder.known')
    .where(ofSeries(instrumentStream('fills', instrument)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('part', '=', instant(range.from))
    .where('ranges', '=', multirange([range]))
    .execute()
}
