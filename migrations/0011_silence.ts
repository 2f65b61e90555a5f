import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

const instrument = 'category market.category, symbol text'
const range = 'from_time timestamptz, to_time timestamptz'

/** What the silence of the service says: no trade between two candles of one response, and elsewhere nothing. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.no_trade (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type market.candle_type not null,
      interval market.candle_interval not null,
      part timestamptz not null,
      ranges tstzmultirange not null,
      confirmed tstzmultirange not null default '{}',
      until timestamptz generated always as (upper(ranges)) stored,
      noted_at timestamptz not null default now(),
      turned_up bigint not null default 0,
      primary key (category, symbol, type, interval, part)
    );
    create index no_trade_unconfirmed on recorder.no_trade (noted_at) where ranges <> confirmed;

    create table recorder.unanswered (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type market.candle_type not null,
      interval market.candle_interval not null,
      range tstzrange not null check (not isempty(range)),
      asked_at timestamptz not null,
      times integer not null check (times > 0),
      primary key (category, symbol, type, interval, range)
    );

    create view market.no_trade as
      select n.category, n.symbol, n.type, n.interval, lower(r) as from_time, upper(r) as to_time,
        r <@ n.confirmed as is_confirmed
      from recorder.no_trade n cross join lateral unnest(n.ranges) as r;
  `.execute(db)

  const series = {
    ...keyComments,
    type: 'What the candles are made of: market.',
    interval: 'Length of the candles, as the service names it.',
  }
  await commentOn(db, {
    'recorder.coverage': {
      kind: 'table',
      comment:
        'The ranges of time of a series that are proven to be known in full. Candles: those that came, and the silence between ' +
        'two of one response, which is in recorder.no_trade as well. As rows: market.coverage.',
      columns: {},
    },
    'market.coverage': {
      kind: 'view',
      comment:
        'Ranges of time that are proven to be known in full: everything that happened in them is stored. Of candles, those in ' +
        'which nothing was traded have no row; they are in market.no_trade.',
      columns: {},
    },
    'recorder.no_trade': {
      kind: 'table',
      comment:
        'The parts of the coverage of candles in which there is none: the service left them out between two candles of one ' +
        'response. A ledger of years is kept in parts, so that a change rewrites one. As rows: market.no_trade.',
      columns: {
        ...series,
        part: 'Begin of the 1,440 places of candles in which the ranges begin.',
        ranges: 'Ranges without a trade, half-open.',
        confirmed: 'Of these, the ranges that were looked at once more, later, and had no candle then either.',
        until: 'End of the newest range.',
        noted_at: 'When a range was last added.',
        turned_up: 'Candles that came later where the service had been silent, and are stored now.',
      },
    },
    'recorder.unanswered': {
      kind: 'table',
      comment:
        'Ranges of sparse candles that were asked for, and of which no response showed a candle on both sides: nothing is claimed ' +
        'of them, and they are asked for again after an hour, and then less and less, down to once a day.',
      columns: {
        ...series,
        range: 'What was asked for, half-open.',
        asked_at: 'When it was asked for last.',
        times: 'How often.',
      },
    },
    'market.no_trade': {
      kind: 'view',
      comment:
        'Ranges of time in which nothing was traded, so that there are no candles: the service left them out between two candles ' +
        'of one response. They are part of market.coverage.',
      columns: {
        ...series,
        from_time: "Begin, by the service's time (inclusive).",
        to_time: "End, by the service's time (exclusive).",
        is_confirmed: 'Whether they were looked at once more, later, and had no candle then either.',
      },
    },
  })

  await sql`drop function market.candles_without_gaps`.execute(db)
  const body = `
      with before as (
        select c.open_time, c.close from market.candles c
        where c.category = candles_without_gaps.category and c.symbol = candles_without_gaps.symbol
          and c.type = candles_without_gaps.type and c.interval = candle_interval and c.is_closed and c.open_time < from_time
        order by c.open_time desc limit 1
      ), inside as (
        select c.* from market.candles c
        where c.category = candles_without_gaps.category and c.symbol = candles_without_gaps.symbol
          and c.type = candles_without_gaps.type and c.interval = candle_interval and c.is_closed
          and c.open_time >= from_time and c.open_time < to_time
      ), grid as (
        -- Aligned to the candles that there are: those of a day need not open at midnight UTC.
        select g.open_time
        from (select coalesce((select min(i.open_time) from inside i), (select b.open_time from before b)) as open_time) anchor
        cross join lateral generate_series(
          date_bin(market.interval_length(candle_interval), from_time, anchor.open_time),
          least(to_time, now()) - interval '1 microsecond', market.interval_length(candle_interval)) as g (open_time)
        where g.open_time >= from_time
      ), grouped as (
        select g.open_time, i.open, i.high, i.low, i.close, i.base_volume, i.quote_turnover,
          count(i.close) over (order by g.open_time) as candles_so_far
        from grid g left join inside i on i.open_time = g.open_time
      ), carried as (
        select g.*, coalesce(
          first_value(g.close) over (partition by g.candles_so_far order by g.open_time),
          (select b.close from before b)) as last_close
        from grouped g
      ), known as materialized (
        select range_agg(tstzrange(v.from_time, v.to_time)) as ranges from market.coverage v
        where v.category = candles_without_gaps.category and v.symbol = candles_without_gaps.symbol
          and v.stream = 'candles' and v.type = candles_without_gaps.type and v.interval = candle_interval
          and v.to_time > candles_without_gaps.from_time and v.from_time < candles_without_gaps.to_time
      )
      select c.open_time, coalesce(c.open, c.last_close), coalesce(c.high, c.last_close), coalesce(c.low, c.last_close),
        coalesce(c.close, c.last_close), coalesce(c.base_volume, 0), coalesce(c.quote_turnover, 0), c.close is null,
        c.close is not null or coalesce((select k.ranges from known k)
          @> tstzrange(c.open_time, c.open_time + market.interval_length(candle_interval)), false)
      from carried c
      where c.last_close is not null
      order by c.open_time`
  await sql`create function market.candles_without_gaps ${sql.raw(
    `(${instrument}, candle_interval market.candle_interval, ${range}, type market.candle_type default 'market')
    returns table (open_time timestamptz, open numeric, high numeric, low numeric, close numeric,
      base_volume numeric, quote_turnover numeric, is_filled boolean, is_recorded boolean)`,
  )} language sql stable parallel safe as ${sql.lit(`${body}\n`)}`.execute(db)
  await sql`comment on function market.candles_without_gaps is ${sql.lit(
    'Closed candles of a half-open range, one for each step. Where one is missing, is_filled is true, its prices are the ' +
      'close before it and its volume is 0: nothing was traded when is_recorded is true, and when it is false, that step was not ' +
      'recorded and nobody knows. Begins with the first candle that there is, and ends with the present.',
  )}`.execute(db)
}
