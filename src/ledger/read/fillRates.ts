import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'

export interface FillRate extends InstrumentKey {
  /** Fills a second. */
  readonly perSecond: number
}

/** Number of newest fills read per instrument: enough for a rate, and few enough for thousands of instruments. */
const sampled = 300
const lookbackMs = 3 * dayMs

/**
 * How often each instrument traded lately, as it was recorded: over the time that its newest fills span, until the newest fill
 * of all. Instruments without fills of the last three days are left out.
 */
export async function recentFillRates(db: Kysely<Database>, now: TimeMs): Promise<FillRate[]> {
  const since = sql`${toDate(now - lookbackMs)}::timestamptz`
  const { rows } = await sql<FillRate>`
    with sample as (
      select i.category, i.symbol, s.count, s.oldest, s.newest
      from market.instruments i
      cross join lateral (
        select count(*) as count, min(ts) as oldest, max(ts) as newest from (
          select ts from market.fills f
          where f.category = i.category and f.symbol = i.symbol and f.ts > ${since}
          order by ts desc limit ${sampled}
        ) as latest
      ) as s
      where i.disappeared_at is null and s.count > 1
    )
    -- Silence since the newest fill lowers a rate; silence of the whole recorder does not.
    select category, symbol,
      (count / greatest(1, extract(epoch from (select max(newest) from sample) - oldest)))::float8 as "perSecond"
    from sample
    order by category, symbol`.execute(db)
  return rows
}
