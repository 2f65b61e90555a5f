import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/**
 * Keeps what is proven of fills in parts by time, so that a page writes one of them, however many gaps there were. What was stored
 * before stays as the first part of its series.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const ofAllParts = sql`
    case when c.stream = 'fills' then (
      select coalesce(range_agg(r), '{}')
      from recorder.coverage p cross join lateral unnest(p.ranges) as r
      where p.stream = c.stream and p.category = c.category and p.symbol = c.symbol and p.type = c.type and p.interval = c.interval
    ) else c.ranges end`
  await sql`
    alter table recorder.coverage add column part timestamptz not null default '-infinity';
    alter table recorder.coverage drop constraint coverage_pkey;
    alter table recorder.coverage add primary key (stream, category, symbol, type, interval, part);

    -- A range may go on from one part into the next.
    create or replace view market.coverage as
      select c.category, c.symbol, c.stream,
        nullif(c.type, '')::market.candle_type as type,
        nullif(c.interval, '')::market.candle_interval as interval,
        lower(r) as from_time, upper(r) as to_time
      from recorder.coverage c cross join lateral unnest(${ofAllParts}) as r
      where c.part = '-infinity';

    create or replace view recorder_page.coverage as
      select c.stream, c.category, c.symbol, c.type, c.interval, ${ofAllParts} as ranges
      from recorder.coverage c
      where c.part = '-infinity';
  `.execute(db)
  await commentOn(db, {
    'recorder.coverage': {
      kind: 'table',
      comment:
        'The ranges of time of a series that are proven to be known in full. Candles: those that came, and the silence between ' +
        'two of one response, which is in recorder.no_trade as well. What is proven of a series is all its parts together. As ' +
        'rows: market.coverage.',
      columns: {
        part:
          'Fills are kept in parts by time, so that a response writes one: the ranges from here until the next part of the series. ' +
          '-infinity is the first one, the only one of other streams.',
      },
    },
  })
}
