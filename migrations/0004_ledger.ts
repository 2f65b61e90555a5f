import { type Kysely, sql } from 'kysely'
import { commentOn, createTables, key } from './relations.js'

/** The verdicts. src/ledger/verdicts.ts says who may move a range from one to another. */
const proven = [
  'recorded',
  'final',
  'silent',
  'no trade',
  'before the beginning',
  'unanswered',
  'missing',
  'lost',
  'repaired',
]
/** Shows how far the recorder has come with a series. */
const progress = ['unsettled', 'reviewed']
/** Speaks against claims. */
const evidence = ['contradicted', 'disputed']
const verdicts = [...proven, ...progress, ...evidence]
const verdictCheck = `check (verdict in (${verdicts.map((verdict) => `'${verdict}'`).join(', ')}))`
const settledCheck = `check ((verdict in ('lost', 'repaired', 'unsettled')) = (settled_at is not null))`
const gapVerdicts = `('missing', 'lost', 'repaired')`
/** A gap has a reason, and one range in a part of its own. */
const isOneGap =
  'reason is not null and part = lower(ranges) and not upper_inf(ranges) ' +
  'and ranges = tstzmultirange(tstzrange(part, upper(ranges)))'

/**
 * Type and interval are '' for streams without them, because a primary key holds no NULL. Only gaps have a value in
 * `gap_until`, because a change of an indexed column costs an entry in every index.
 */
const tables = {
  'recorder.ledger': `
    -- The ledger: what is known of each stretch of time of a series. As rows: market.coverage, market.gaps,
    -- market.no_trade. Ranges of a verdict are kept in parts by time, so that a response writes one of them, however
    -- long the series is.
    id bigint generated always as identity -- Number of the row.
    stream text not null check (stream <> '') -- What is recorded, named as the table that holds it.
    ${key}
    type text not null default '' check (type = '' or type::market.candle_type is not null)
      -- Candles: market, mark, index or premium; empty otherwise.
    interval text not null default '' check (interval = '' or interval::market.candle_interval is not null)
      -- Candles: length as the service names it; empty otherwise.
    verdict text not null ${verdictCheck}
      -- recorded: proven to be stored in full. final: its rows have left; nothing stores, claims or requests them again.
      -- Of fills this may be single milliseconds, which no claim had. silent: the service sent no candles here, between
      -- two that it sent. The range is also recorded. no trade: silent, and looked at once more, later. before the
      -- beginning: the series has no rows there. unanswered: asked for, and no response shows anything. missing: a gap
      -- that may be repaired.
      -- lost: a gap that the service no longer fills. repaired: a gap that was filled. unsettled: fills were seen
      -- without a break, and more may turn up; the next page that follows on makes it recorded. reviewed: closed candles
      -- were read again, down to the beginning of the range; the next review goes on from there into the past.
      -- contradicted: a candle or a schedule speaks against the stored rows. disputed: a response left out stored rows,
      -- or gave them other values. Neither may be claimed until rows agree with it.
    part timestamptz not null default '-infinity'
      -- Start of this row's stretch; of a gap, the start of the gap. A verdict of a series may have several rows, so
      -- that a write changes only a short one. The start is -infinity in the first row of recorded ranges, and where
      -- one row holds everything.
    ranges tstzmultirange not null -- The ranges, half-open.
    reason text check (reason <> '') -- Gaps and evidence: why it is there.
    noted_at timestamptz not null default now()
      -- When the verdict was noted: of gaps when they were found, of silence, of what is unanswered and of reviews the
      -- last time. unsettled, and recorded candles: service time of the newest live response. final: the end of its ranges.
    asked_since timestamptz
      -- unsettled: from when on responses were asked for fills, as far as the oldest of them reaches. recorded candles:
      -- the oldest one that the newest live response shows. final fills: from when on retention keeps them. NULL for
      -- others.
    settled_at timestamptz
      -- Gaps: when it was repaired, or known to be beyond repair. unsettled: ranges after it may lack fills that are not
      -- in the order of their times; the next page that follows on proves them.
    times integer not null default 1 check (times > 0) -- unanswered: how often it was asked for.
    filled_from text check (filled_from in ('live', 'history'))
      -- Repaired gaps in fills: live, or history, by what filled them; NULL otherwise.
    gap_until timestamptz generated always as (case when verdict in ('missing', 'lost') then upper(ranges) end) stored
      -- Gaps that are not repaired: their end.
    rows_before bigint not null default 0 -- Gaps: rows that were stored in its range when it was found.
    primary key (stream, category, symbol, type, interval, verdict, part)
    check (verdict not in ${gapVerdicts} or ${isOneGap})
    ${settledCheck}`,
}

const views = {
  'market.coverage': `
    -- Ranges of time that are proven to be known in full: everything that happened in them is stored. Of candles,
    -- those in which nothing was traded have no row; they are in market.no_trade.
    ${key}
    stream -- What is recorded, named as the table that holds it.
    type -- Candles: market, mark, index or premium; NULL otherwise.
    interval -- Candles: length as the service names it; NULL otherwise.
    from_time -- Begin, by the service's time (inclusive).
    to_time -- End, by the service's time (exclusive).`,
  'market.gaps': `
    -- Known gaps in what was recorded.
    ${key}
    stream -- What is recorded, named as the table that holds it.
    type -- Candles: market, mark, index or premium; NULL otherwise.
    interval -- Candles: length as the service names it; NULL otherwise.
    from_time -- Begin, by the service's time (inclusive).
    to_time -- End, by the service's time (exclusive).
    reason -- Why it is there.
    state -- open (may be repaired), repaired, or lost (the service no longer has it).
    filled_from -- Repaired gaps in fills: live, or history, by what filled them; NULL otherwise.`,
  'market.no_trade': `
    -- Ranges of time in which nothing was traded, so that there are no candles: the service left them out between two
    -- candles of one response. They are part of market.coverage.
    ${key}
    type -- What the candles are made of: market.
    interval -- Length of the candles, as the service names it.
    from_time -- Begin, by the service's time (inclusive).
    to_time -- End, by the service's time (exclusive).
    is_confirmed -- True if they were looked at once more, later, and had no candle then either.`,
  'recorder_page.coverage': `
    -- For the page: the proven ranges of a series.
    ${key}
    stream -- What is recorded, named as the table that holds it.
    type -- Candles: market, mark, index or premium; empty otherwise.
    interval -- Candles: length as the service names it; empty otherwise.
    ranges -- Proven ranges.`,
  'recorder_page.gap': `
    -- For the page: known gaps.
    ${key}
    stream -- What is recorded, named as the table that holds it.
    type -- Candles: market, mark, index or premium; empty otherwise.
    interval -- Candles: length as the service names it; empty otherwise.
    range -- The time that is missing.
    reason -- Why it is there.
    state -- open (may be repaired), repaired, or lost (the service no longer has it).
    detected_at -- When it was found.
    filled_from -- Repaired gaps in fills: live, or history, by what filled them; NULL otherwise.`,
}

/** The ledger: what is known of each range of time of a series. Nothing is known of a range that it does not name. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTables(db, tables)
  await sql`
    alter table recorder.ledger set (fillfactor = 70);
    create index ledger_gap_until on recorder.ledger (stream, category, symbol, gap_until) where gap_until is not null;
    create index ledger_long_gap on recorder.ledger (stream, category, symbol, gap_until)
      where gap_until - part >= interval '1 hour';
    create index ledger_missing on recorder.ledger (noted_at) where verdict = 'missing';
    create index ledger_silent on recorder.ledger (noted_at) where verdict = 'silent';
    create index ledger_unanswered on recorder.ledger (noted_at) where verdict = 'unanswered';
    create index ledger_fill_gap on recorder.ledger (id) where stream = 'fills' and verdict in ('missing', 'lost');
    create index ledger_evidence on recorder.ledger (noted_at) where verdict in ('contradicted', 'disputed');

    create schema recorder_page;
    comment on schema recorder_page is 'What the page reads of the accounts: views that market_reader may see.';

    -- A range may continue from one part into the next.
    create view recorder_page.coverage as
      select k.stream, k.category, k.symbol, k.type, k.interval,
        case when k.stream = 'fills' then (
          select coalesce(range_agg(r), '{}') from recorder.ledger p cross join lateral unnest(p.ranges) as r
          where p.stream = k.stream and p.category = k.category and p.symbol = k.symbol and p.type = k.type
            and p.interval = k.interval and p.verdict = 'recorded'
        ) else k.ranges end as ranges
      from recorder.ledger k
      where k.verdict = 'recorded' and k.part = '-infinity';

    create view recorder_page.gap as
      select stream, category, symbol, type, interval, tstzrange(part, upper(ranges)) as range, reason,
        case verdict when 'missing' then 'open' else verdict end as state, noted_at as detected_at, filled_from
      from recorder.ledger where verdict in ${sql.raw(gapVerdicts)};

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
      from recorder.ledger cross join lateral unnest(ranges) as r
      where verdict in ('silent', 'no trade');
  `.execute(db)
  await commentOn(db, 'view', views)
}
