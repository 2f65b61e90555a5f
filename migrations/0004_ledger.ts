import { type Kysely, sql } from 'kysely'
import { candleProof } from './candleProof.js'
import { commentOn, keyComments } from './comments.js'
import { fillProof } from './fillProof.js'
import { storeFills } from './storeFills.js'

/** The verdicts. src/ledger/verdicts.ts says who may move a range from one to another. */
const proven = ['recorded', 'silent', 'no trade', 'before the beginning', 'unanswered', 'missing', 'lost', 'repaired']
/** Shows how far the recorder has come with a series. */
const progress = ['unsettled', 'audited', 'reviewed']
const gapVerdicts = sql.raw(`('missing', 'lost', 'repaired')`)

/** The ledger: what is known of each range of time of a series. Nothing is known of a range that it does not name. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.known (
      id bigint generated always as identity,
      stream text not null check (stream <> ''),
      category market.category not null,
      symbol text not null check (symbol <> ''),
      -- Type and interval are '' for streams without them, because a primary key holds no NULL.
      type text not null default '' check (type = '' or type::market.candle_type is not null),
      interval text not null default '' check (interval = '' or interval::market.candle_interval is not null),
      verdict text not null check (verdict in (${sql.join([...proven, ...progress].map((verdict) => sql.lit(verdict)))})),
      part timestamptz not null default '-infinity',
      ranges tstzmultirange not null,
      reason text check (reason <> ''),
      noted_at timestamptz not null default now(),
      settled_at timestamptz,
      judged_at timestamptz,
      times integer not null default 1 check (times > 0),
      filled_from text check (filled_from in ('live', 'history')),
      -- Only gaps have a value here, because a change of an indexed column costs an entry in every index.
      gap_until timestamptz generated always as (case when verdict in ('missing', 'lost') then upper(ranges) end) stored,
      primary key (stream, category, symbol, type, interval, verdict, part),
      check (verdict not in ${gapVerdicts} or
        reason is not null and part = lower(ranges) and not upper_inf(ranges)
          and ranges = tstzmultirange(tstzrange(part, upper(ranges)))),
      check ((verdict in ('lost', 'repaired')) = (settled_at is not null))
    ) with (fillfactor = 70);
    create index known_gap_until on recorder.known (stream, category, symbol, gap_until) where gap_until is not null;
    create index known_long_gap on recorder.known (stream, category, symbol, gap_until)
      where gap_until - part >= interval '1 hour';
    create index known_missing on recorder.known (noted_at) where verdict = 'missing';
    create index known_silent on recorder.known (noted_at) where verdict = 'silent';
    create index known_unanswered on recorder.known (noted_at) where verdict = 'unanswered';
    create index known_fill_gap on recorder.known (noted_at, id) where stream = 'fills' and verdict in ('missing', 'lost');
    create index known_not_judged on recorder.known (id)
      where stream = 'fills' and verdict in ('missing', 'lost') and judged_at is null;

    create schema recorder_page;
    comment on schema recorder_page is 'What the page reads of the books: views that market_reader may see.';

    -- A range may continue from one part into the next.
    create view recorder_page.coverage as
      select k.stream, k.category, k.symbol, k.type, k.interval,
        case when k.stream = 'fills' then (
          select coalesce(range_agg(r), '{}') from recorder.known p cross join lateral unnest(p.ranges) as r
          where p.stream = k.stream and p.category = k.category and p.symbol = k.symbol and p.type = k.type
            and p.interval = k.interval and p.verdict = 'recorded'
        ) else k.ranges end as ranges
      from recorder.known k
      where k.verdict = 'recorded' and k.part = '-infinity';

    create view recorder_page.gap as
      select stream, category, symbol, type, interval, tstzrange(part, upper(ranges)) as range, reason,
        case verdict when 'missing' then 'open' else verdict end as state, noted_at as detected_at, filled_from
      from recorder.known where verdict in ${gapVerdicts};

    create view market.coverage as
      select c.category, c.symbol, c.stream,
        nullif(c.type, '')::market.candle_type as type,
        nullif(c.interval, '')::market.candle_interval as interval,
        lower(r) as from_time, upper(r) as to_time
      from recorder_page.coverage c cross join lateral unnest(c.ranges) as r;

    create view market.gaps as
      select g.category, g.symbol, g.stream,
        nullif(g.type, '')::market.candle_type as type,
        nullif(g.interval, '')::market.candle_interval as interval,
        lower(g.range) as from_time, upper(g.range) as to_time, g.reason, g.state, g.filled_from
      from recorder_page.gap g;

    create view market.no_trade as
      select category, symbol, nullif(type, '')::market.candle_type as type,
        nullif(interval, '')::market.candle_interval as interval,
        lower(r) as from_time, upper(r) as to_time, verdict = 'no trade' as is_confirmed
      from recorder.known cross join lateral unnest(ranges) as r
      where verdict in ('silent', 'no trade');
  `.execute(db)
  for (const functions of [candleProof, fillProof, storeFills]) await functions.execute(db)
  await describe(db)
}

async function describe(db: Kysely<unknown>): Promise<void> {
  const stream = 'What is recorded, named as the table that holds it.'
  const series = {
    stream,
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
    type: 'Candles: market, mark, index or premium; NULL otherwise.',
    interval: 'Candles: length as the service names it; NULL otherwise.',
    ...range,
  }
  const state = 'open (may be repaired), repaired, or lost (the service no longer has it).'
  const filledFrom = 'Repaired gaps in fills: live, or history, by what filled them; NULL otherwise.'
  await commentOn(db, {
    'recorder.known': {
      kind: 'table',
      comment:
        'The ledger: what is known of each stretch of time of a series. As rows: market.coverage, market.gaps, market.no_trade. ' +
        'Ranges of a verdict are kept in parts by time, so that a response writes one of them, however long the series is.',
      columns: {
        id: 'Number of the row.',
        ...series,
        verdict:
          'recorded: proven to be stored in full. silent: part of it, and the service left candles out there, as nothing was ' +
          'traded. no trade: silent, and looked at once more, later. before the beginning: the series has no rows there. ' +
          'unanswered: asked for, and no response shows anything. missing: a gap that may be repaired. lost: a gap that the ' +
          'service no longer fills. repaired: a gap that was filled. unsettled: seen without a break, but fills may still turn ' +
          'up there; the next page that follows on claims it. audited: claims of these minutes were compared with the ' +
          'candles, or have waited for a candle in vain. reviewed: closed candles were read again, down to the beginning of ' +
          'the range; the next stretch ends there.',
        part:
          'Where the part begins. recorded: fills have parts of 128 ranges, from here until the next part; -infinity is the first, ' +
          'and the only one of other streams. silent, no trade: the 1,440 places of candles in which the ranges begin. Gaps and ' +
          'unanswered: one part for each range.',
        ranges: 'The ranges, half-open.',
        reason: 'Gaps: why it is there.',
        noted_at:
          'When the verdict was noted: of gaps when they were found, of silence, of what is unanswered and of reviews the last time.',
        settled_at: 'Gaps: when it was repaired, or known to be beyond repair.',
        judged_at:
          'Gaps in fills: when the candles have shown that fills are missing, or were waited for in vain; NULL before, and for all others.',
        times: 'unanswered: how often it was asked for.',
        filled_from: filledFrom,
        gap_until: 'Gaps that are not repaired: their end.',
      },
    },
    'market.coverage': {
      kind: 'view',
      comment:
        'Ranges of time that are proven to be known in full: everything that happened in them is stored. Of candles, those in ' +
        'which nothing was traded have no row; they are in market.no_trade.',
      columns: { ...viewed, stream },
    },
    'market.gaps': {
      kind: 'view',
      comment: 'Known gaps in what was recorded.',
      columns: { ...viewed, stream, reason: 'Why it is there.', state, filled_from: filledFrom },
    },
    'market.no_trade': {
      kind: 'view',
      comment:
        'Ranges of time in which nothing was traded, so that there are no candles: the service left them out between two candles ' +
        'of one response. They are part of market.coverage.',
      columns: {
        ...viewed,
        type: 'What the candles are made of: market.',
        interval: 'Length of the candles, as the service names it.',
        is_confirmed: 'Whether they were looked at once more, later, and had no candle then either.',
      },
    },
    'recorder_page.coverage': {
      kind: 'view',
      comment: 'For the page: the proven ranges of a series.',
      columns: { ...series, ranges: 'Proven ranges.' },
    },
    'recorder_page.gap': {
      kind: 'view',
      comment: 'For the page: known gaps.',
      columns: {
        ...series,
        range: 'The time that is missing.',
        reason: 'Why it is there.',
        state,
        detected_at: 'When it was found.',
        filled_from: filledFrom,
      },
    },
  })
}
