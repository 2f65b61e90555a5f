import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

const pageComments = {
  stream: 'Stream that the series belongs to.',
  category: 'Product line of the service.',
  symbol: 'Instrument name; * for all instruments of the category.',
  type: 'Type of candles; empty for other streams.',
  interval: 'Interval of candles; empty for other streams.',
}

/** What is known of each stretch of time of each series: proven, empty, without a trade, asked in vain, or missing. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Type and interval are '' for streams without them: NULLs in a key are all distinct before PostgreSQL 15.
  const series = sql.raw(`
      stream text not null check (stream <> ''),
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type text not null default '' check (type = '' or type::market.candle_type is not null),
      interval text not null default '' check (interval = '' or interval::market.candle_interval is not null)`)
  const ofAllParts = sql`
    case when c.stream = 'fills' then (
      select coalesce(range_agg(r), '{}')
      from recorder.coverage p cross join lateral unnest(p.ranges) as r
      where p.stream = c.stream and p.category = c.category and p.symbol = c.symbol and p.type = c.type and p.interval = c.interval
    ) else c.ranges end`
  await sql`
    create table recorder.coverage (
      ${series},
      ranges tstzmultirange not null,
      updated_at timestamptz not null default now(),
      part timestamptz not null default '-infinity',
      primary key (stream, category, symbol, type, interval, part)
    );

    create table recorder.empty_range (
      ${series},
      ranges tstzmultirange not null,
      updated_at timestamptz not null default now(),
      primary key (stream, category, symbol, type, interval)
    );

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

    create table recorder.gap (
      id bigint generated always as identity primary key,
      ${series},
      range tstzrange not null check (not isempty(range) and not lower_inf(range) and not upper_inf(range)),
      reason text not null check (reason <> ''),
      state text not null default 'open' check (state in ('open', 'repaired', 'lost')),
      detected_at timestamptz not null,
      repaired_at timestamptz,
      lost_at timestamptz,
      judged_at timestamptz,
      unique (stream, category, symbol, type, interval, range),
      check ((state = 'repaired') = (repaired_at is not null)),
      check ((state = 'lost') = (lost_at is not null))
    );
    create index gap_open on recorder.gap (detected_at) where state = 'open';
    create index gap_not_judged on recorder.gap (id) where stream = 'fills' and state = 'lost' and judged_at is null;

    create table recorder.archived_day (
      table_name text not null check (table_name <> ''),
      day date not null,
      version integer not null check (version > 0),
      rows bigint not null,
      digest text not null,
      proof_digest text not null,
      archived_at timestamptz not null default now(),
      removed_at timestamptz,
      primary key (table_name, day)
    );

    create schema recorder_page;
    comment on schema recorder_page is 'What the page reads of the books: views that market_reader may see.';

    -- A range may go on from one part into the next.
    create view market.coverage as
      select c.category, c.symbol, c.stream,
        nullif(c.type, '')::market.candle_type as type,
        nullif(c.interval, '')::market.candle_interval as interval,
        lower(r) as from_time, upper(r) as to_time
      from recorder.coverage c cross join lateral unnest(${ofAllParts}) as r
      where c.part = '-infinity';

    create view recorder_page.coverage as
      select c.stream, c.category, c.symbol, c.type, c.interval, ${ofAllParts} as ranges
      from recorder.coverage c
      where c.part = '-infinity';

    create view market.gaps as
      select g.category, g.symbol, g.stream,
        nullif(g.type, '')::market.candle_type as type,
        nullif(g.interval, '')::market.candle_interval as interval,
        lower(g.range) as from_time, upper(g.range) as to_time, g.reason, g.state
      from recorder.gap g;

    create view market.no_trade as
      select n.category, n.symbol, n.type, n.interval, lower(r) as from_time, upper(r) as to_time,
        r <@ n.confirmed as is_confirmed
      from recorder.no_trade n cross join lateral unnest(n.ranges) as r;

    create view recorder_page.gap as
      select stream, category, symbol, type, interval, range, reason, state, detected_at from recorder.gap;
  `.execute(db)
  await describe(db)
}

async function describe(db: Kysely<unknown>): Promise<void> {
  const seriesComments = {
    stream: 'What is recorded, named as the table that holds it.',
    ...keyComments,
    type: 'Candles: market, mark, index or premium; empty otherwise.',
    interval: 'Candles: length as the service names it; empty otherwise.',
  }
  const range = {
    from_time: "Begin, by the service's time (inclusive).",
    to_time: "End, by the service's time (exclusive).",
  }
  const viewed = {
    ...keyComments,
    stream: 'What is recorded, named as the table that holds it.',
    type: 'Candles: market, mark, index or premium; NULL otherwise.',
    interval: 'Candles: length as the service names it; NULL otherwise.',
    ...range,
  }
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
        'two of one response, which is in recorder.no_trade as well. What is proven of a series is all its parts together. As ' +
        'rows: market.coverage.',
      columns: {
        ...seriesComments,
        ranges: 'Proven ranges, half-open.',
        updated_at: 'When a range was last added.',
        part:
          'Fills are kept in parts by time, so that a response writes one: the ranges from here until the next part of the series. ' +
          '-infinity is the first one, the only one of other streams.',
      },
    },
    'market.coverage': {
      kind: 'view',
      comment:
        'Ranges of time that are proven to be known in full: everything that happened in them is stored. Of candles, those in ' +
        'which nothing was traded have no row; they are in market.no_trade.',
      columns: viewed,
    },
    'recorder.empty_range': {
      kind: 'table',
      comment: 'Ranges in which a series was confirmed to have no rows: before it begins. Never part of the coverage.',
      columns: {
        ...seriesComments,
        ranges: 'Confirmed ranges, half-open.',
        updated_at: 'When a range was last added.',
      },
    },
    'recorder.gap': {
      kind: 'table',
      comment: 'A known gap in what was recorded. As an analyst sees it: market.gaps.',
      columns: {
        id: 'Number of the gap.',
        ...seriesComments,
        range: "The gap, half-open, by the service's time.",
        reason: 'Why it is there.',
        state: 'open (may be repaired), repaired, or lost (the service no longer has it).',
        detected_at: 'When it was found.',
        repaired_at: 'When it was filled; NULL unless repaired.',
        lost_at: 'When it was known to be beyond repair; NULL unless lost.',
        judged_at:
          'Lost gaps in fills: when the candles have shown that fills are missing, or were waited for in vain; NULL before, and for all others.',
      },
    },
    'market.gaps': {
      kind: 'view',
      comment: 'Known gaps in what was recorded.',
      columns: {
        ...viewed,
        reason: 'Why it is there.',
        state: 'open (may be repaired), repaired, or lost (the service no longer has it).',
      },
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
        ...range,
        is_confirmed: 'Whether they were looked at once more, later, and had no candle then either.',
      },
    },
    'recorder.archived_day': {
      kind: 'table',
      comment:
        'A day of a table that is in the archive, read back and found equal. The archive itself has the whole proof.',
      columns: {
        table_name: 'Table of schema market.',
        day: 'The day, UTC.',
        version: 'Version of the day in the archive, from 1.',
        rows: 'Rows that it has.',
        digest: 'SHA-256 that the manifest of this version has.',
        proof_digest:
          'SHA-256 of what the database had proven of the day then; empty when the day has to be written again.',
        archived_at: 'When this version was written.',
        removed_at: 'When its rows were removed from the database for their age; NULL while they are here.',
      },
    },
    'recorder_page.coverage': {
      kind: 'view',
      comment: 'recorder.coverage for the page: the proven ranges of a series.',
      columns: { ...pageComments, ranges: 'Proven ranges.' },
    },
    'recorder_page.gap': {
      kind: 'view',
      comment: 'recorder.gap for the page: known gaps.',
      columns: {
        ...pageComments,
        range: 'The time that is missing.',
        reason: 'Why.',
        state: 'open, repaired or lost.',
        detected_at: 'When it was found.',
      },
    },
  })
}
