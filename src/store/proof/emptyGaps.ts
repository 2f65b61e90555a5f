import { type Kysely, sql } from 'kysely'
import type { Category } from '../../market/category.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import type { Database } from '../db/schema.js'

/** A gap in fills that turned out to be none. */
export interface EmptyGap {
  readonly id: number
  readonly category: Category
  readonly symbol: string
  readonly range: TimeRange
}

/**
 * The gaps in fills, found since `since`, in which nothing was lost: every minute that they touch has a closed candle whose
 * volume is exactly that of the stored fills. Two responses may adjoin without sharing a fill, which looks like a gap.
 */
export async function emptyFillGaps(db: Kysely<Database>, since: TimeMs): Promise<EmptyGap[]> {
  const { rows } = await sql<{ id: number; category: Category; symbol: string; from: TimeMs; to: TimeMs }>`
    select g.id, g.category, g.symbol, lower(g.range) as "from", upper(g.range) as "to"
    from recorder.gap g
    where g.stream = 'fills' and g.state = 'lost' and g.detected_at >= ${new Date(since)}::timestamptz
      -- Longer ones are not two responses that adjoin.
      and upper(g.range) - lower(g.range) < interval '1 hour'
      and not exists (
        select from generate_series(
          date_trunc('minute', lower(g.range), 'UTC'), upper(g.range) - interval '1 millisecond', interval '1 minute'
        ) as minute
        where not exists (
          select from market.candles c
          where c.category = g.category and c.symbol = g.symbol and c.type = 'market' and c.interval = '1m'
            and c.open_time = minute and c.is_closed
            -- Sizes of coin futures are in the quote coin.
            and case when g.category = 'COIN-FUTURES' then c.quote_turnover else c.base_volume end = (
              select coalesce(sum(f.size), 0) from market.fills f
              where f.category = g.category and f.symbol = g.symbol
                and f.ts >= minute and f.ts < minute + interval '1 minute')
        )
      )`.execute(db)
  return rows.map(({ id, category, symbol, from, to }) => ({ id, category, symbol, range: { from, to } }))
}

/** Takes a gap back. */
export async function removeGap(db: Kysely<Database>, id: number): Promise<void> {
  await db.deleteFrom('recorder.gap').where('id', '=', id).execute()
}
