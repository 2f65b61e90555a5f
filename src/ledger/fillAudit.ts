import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import type { ServiceMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { instrumentStream, ofSeries } from '../db/series.js'
import { addCoverage, gapRange, multirange } from './verdicts.js'

/** A minute of an instrument whose claim was withdrawn. */
export interface WithdrawnMinute extends InstrumentKey {
  readonly minute: ServiceMs
}

/**
 * Compares coverage of fills with new candles. Withdraws the coverage of minutes that lack fills.
 *
 * @param since minutes before this time no longer wait for their candles
 */
export async function auditFills(
  db: Kysely<Database>,
  { since, at }: { readonly since: ServiceMs; readonly at: ServiceMs },
): Promise<WithdrawnMinute[]> {
  const { rows } = await sql<WithdrawnMinute>`
    select category, symbol, minute from recorder.audit_fills(${new Date(since)}, ${new Date(at)})`.execute(db)
  return rows
}

/** Number of gaps per statement. The database judges this many long before a statement times out. */
const gapsPerLook = 500

/**
 * Judges the next gaps. Removes gaps in which no fill was lost, and records their ranges as proven. `last` is the number
 * of the last judged gap; null if no gap is left after it.
 *
 * @param since gaps found before this time no longer wait for their candles
 * @param after the number of the gap before the first one to judge
 */
export async function dismissEmptyGaps(
  db: Kysely<Database>,
  { since, after }: { readonly since: ServiceMs; readonly after: number },
): Promise<{ readonly dismissed: number; readonly last: number | null }> {
  const gaps = await judgeFillGaps(db, since, after)
  const empty = gaps.filter(({ isEmpty }) => isEmpty)
  for (const { from, to, ...instrument } of empty) {
    const series = instrumentStream('fills', instrument)
    await db.transaction().execute(async (trx) => {
      // Adds the coverage first, as the writers of fills do. In another order two transactions could deadlock.
      await addCoverage(trx, series, [{ from, to }])
      await trx
        .deleteFrom('recorder.ledger')
        .where(ofSeries(series))
        .where('verdict', 'in', ['missing', 'lost'])
        .where('part', '=', instant(from))
        .where('ranges', '=', multirange([{ from, to }]))
        .execute()
    })
  }
  return { dismissed: empty.length, last: gaps.length < gapsPerLook ? null : (gaps.at(-1)?.id ?? null) }
}

interface JudgedGap extends InstrumentKey, TimeRange {
  readonly id: number
  /** True if no fill was lost in the gap. */
  readonly isEmpty: boolean
}

/**
 * Judges gaps in fills that nobody has judged yet, in the order of their numbers. No fill was lost if each minute has
 * a closed candle with exactly the volume of its stored fills. Such a gap appears when two responses adjoin
 * without a shared fill. Other gaps are marked as judged, so that each is compared only once. A gap waits while a
 * minute has no closed candle, and while fills of its minutes may still arrive.
 */
async function judgeFillGaps(db: Kysely<Database>, since: ServiceMs, after: number): Promise<JudgedGap[]> {
  const { rows } = await sql<JudgedGap>`
    with due as materialized (
      select id, category, symbol, ${gapRange} as range,
        -- Longer gaps do not come from two responses that adjoin.
        noted_at < ${instant(since)} or gap_until - part >= interval '1 hour' as is_given_up
      from recorder.ledger
      where stream = 'fills' and verdict in ('missing', 'lost') and judged_at is null and id > ${after}
      order by id limit ${gapsPerLook}
    ), looked as materialized (
      select due.*, coalesce(m.is_empty, false) as is_empty,
        due.is_given_up or (m.has_candles and not m.is_empty and coalesce(
          (select upper(v.ranges) from recorder.ledger v
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
      update recorder.ledger g set judged_at = now() from looked
      where g.id = looked.id and g.stream = 'fills' and g.category = looked.category and g.symbol = looked.symbol
        and g.type = '' and g.interval = '' and g.verdict in ('missing', 'lost') and g.part = lower(looked.range) and looked.is_judged
    )
    select id, category, symbol, lower(range) as "from", upper(range) as "to", is_empty as "isEmpty"
    from looked order by id`.execute(db)
  return rows
}
