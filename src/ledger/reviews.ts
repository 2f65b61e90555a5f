import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import { candleStream, sameSeries, seriesColumns } from '../db/series.js'
import { is, knownKey } from './verdicts.js'
import type { Database } from '../db/schema.js'

export interface DueReview {
  readonly series: CandleSeries
  /** From the first candle to the last that is known. */
  readonly range: TimeRange
  /** End of the stretch that is next; null before the first. */
  readonly nextTo: TimeMs | null
  /** When the instrument was listed anew since the last look; null when it was not. */
  readonly relistedAt: TimeMs | null
}

/** Series of listed instruments whose past was not looked at since `before`, or before they were listed anew; the longest ago first. */
export async function dueReviews(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<DueReview[]> {
  const { rows } = await sql<CandleSeries & TimeRange & Omit<DueReview, 'series' | 'range'>>`
    select c.category, c.symbol, c.type, c.interval, lower(c.ranges) as "from", upper(c.ranges) as "to",
      r.next_to as "nextTo", relisted.at as "relistedAt"
    from recorder.known c
    join market.instruments i on i.category = c.category and i.symbol = c.symbol and i.disappeared_at is null
    left join lateral (
      select noted_at as reviewed_at, lower(ranges) as next_to from recorder.known r
      where ${sameSeries('r', 'c')} and ${is('reviewed', 'r')}
    ) as r on true
    left join lateral (
      select max(h.launch_time) as at
      from (
        select launch_time, valid_from, lag(launch_time) over (order by valid_from) as earlier
        from market.instrument_history where category = c.category and symbol = c.symbol
      ) as h
      where h.launch_time <> h.earlier and h.valid_from > r.reviewed_at
    ) as relisted on true
    where c.stream = 'candles' and c.verdict = 'recorded' and not isempty(c.ranges)
      and (coalesce(r.reviewed_at, lower(c.ranges)) < ${instant(before)} or relisted.at is not null)
    order by relisted.at desc nulls last, r.reviewed_at nulls first limit ${limit}`.execute(db)
  return rows.map(({ from, to, nextTo, relistedAt, ...series }) => ({
    series,
    range: { from, to },
    nextTo,
    relistedAt,
  }))
}

/** Notes that a stretch of a series was looked at again; without `nextTo`, the stretch that is next stays. */
export async function noteReview(
  db: Kysely<Database>,
  series: CandleSeries,
  at: TimeMs,
  nextTo: TimeMs | null,
): Promise<void> {
  const ranges = `{[${new Date(nextTo ?? at).toISOString()},)}`
  await db
    .insertInto('recorder.known')
    .values({ ...seriesColumns(candleStream(series)), verdict: 'reviewed', ranges, noted_at: instant(at) })
    .onConflict((conflict) =>
      conflict.columns(knownKey).doUpdateSet((eb) => ({
        noted_at: eb.ref('excluded.noted_at'),
        ...(nextTo === null ? {} : { ranges: eb.ref('excluded.ranges') }),
      })),
    )
    .execute()
}
