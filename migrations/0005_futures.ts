import { type Kysely, sql } from 'kysely'
import { commentOn, extraComment, keyComments, receivedAtComment, type RelationComments } from './comments.js'
import { adding, finite } from './fragments.js'

const keyColumns = `category market.category not null,
      symbol text not null check (symbol <> '')`
const momentColumns = `${keyColumns},
      ts timestamptz not null,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object')`

/** A row of a list is kept by its versions. */
const versionColumns = `extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      valid_from timestamptz not null,
      valid_to timestamptz check (valid_to > valid_from)`
const versionComments = {
  extra: `${extraComment} As they were when this version was first seen.`,
  valid_from: 'When the recorder first saw this version.',
  valid_to: 'When the recorder first saw it changed or gone (exclusive); NULL while it holds.',
}

function sharesTable(what: string) {
  return sql`
    create table ${sql.table(`market.long_short_${what}`)} (
      ${sql.raw(momentColumns)},
      long_share numeric not null check (${finite('long_share')}),
      short_share numeric not null check (${finite('short_share')}),
      long_short_ratio numeric,
      primary key (category, symbol, ts)
    );`
}

function commentOnShares(what: string, operation: string): RelationComments {
  return {
    kind: 'table',
    comment: `How ${what} divide into long and short, in five minutes. Source: ${operation}.`,
    columns: {
      ...keyComments,
      ts: 'Time of the period, by the service.',
      long_share: 'Share that is long, as a fraction.',
      short_share: 'Share that is short, as a fraction.',
      long_short_ratio: 'The first divided by the second; NULL where the service does not say.',
      received_at: receivedAtComment,
      extra: extraComment,
    },
  }
}

/** Tables of data that only futures have. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table market.funding_rates (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      funding_rate numeric not null check (${finite('funding_rate')}),
      interval_hours integer,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts)
    );

    create table market.funding_forecasts (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      funding_rate numeric not null check (${finite('funding_rate')}),
      interval_hours integer,
      next_update timestamptz,
      min_rate numeric,
      max_rate numeric,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts)
    );

    create table market.taker_flow (
      ${sql.raw(momentColumns)},
      buy_volume numeric not null check (${finite('buy_volume')}),
      sell_volume numeric not null check (${finite('sell_volume')}),
      primary key (category, symbol, ts)
    );
    ${sql.join(['ratios', 'accounts', 'positions'].map(sharesTable), sql` `)}

    create table market.index_components (
      ${sql.raw(keyColumns)},
      exchange text not null check (exchange <> ''),
      spot_pair text not null check (spot_pair <> ''),
      weight numeric not null check (${finite('weight')}),
      equivalent_price numeric,
      ${sql.raw(versionColumns)},
      primary key (category, symbol, exchange, spot_pair, valid_from)
    );
    create unique index index_components_one_open on market.index_components (category, symbol, exchange, spot_pair)
      where valid_to is null;

    create table market.position_tiers (
      ${sql.raw(keyColumns)},
      tier integer not null check (tier >= 0),
      min_value numeric not null check (${finite('min_value')}),
      max_value numeric,
      leverage numeric not null check (${finite('leverage')}),
      margin_rate numeric not null check (${finite('margin_rate')}),
      ${sql.raw(versionColumns)},
      primary key (category, symbol, tier, valid_from)
    );
    create unique index position_tiers_one_open on market.position_tiers (category, symbol, tier)
      where valid_to is null;

    create table market.open_interest_limits (
      ${sql.raw(keyColumns)},
      notional_value numeric not null check (${finite('notional_value')}),
      total_notional_value numeric,
      ${sql.raw(versionColumns)},
      primary key (category, symbol, valid_from)
    );
    create unique index open_interest_limits_one_open on market.open_interest_limits (category, symbol)
      where valid_to is null;

    -- The occurrence is part of the key, because liquidations have no id, and two equal ones are two liquidations.
    create table market.liquidations (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      side market.side not null,
      price numeric not null check (${finite('price')}),
      amount numeric not null check (${finite('amount')}),
      occurrence integer not null check (occurrence > 0),
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts, side, price, amount, occurrence)
    );

    -- Adds what responses prove of an instrument. Writers of a series wait for each other at its row with verdict
    -- recorded. The time between the recorded ranges is then noted as gaps. Returns the number of new gaps.
    create function recorder.claim_events(
      of_stream text, of_category market.category, of_symbol text, claim tstzmultirange, why text
    )
    returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
    declare
      whole tstzmultirange;
      gaps tstzmultirange;
      found bigint;
    begin
      insert into recorder.known as k (stream, category, symbol, verdict, ranges)
      values (of_stream, of_category, of_symbol, 'recorded', claim)
      ${sql.raw(adding)} returning ranges into whole;
      if whole is null then
        return 0;
      end if;
      gaps := tstzmultirange(range_merge(whole)) - whole;
      -- A gap that is filled in part stays the same gap, with the time at which it was found.
      with touched as (
        delete from recorder.known k
        where k.stream = of_stream and k.category = of_category and k.symbol = of_symbol and k.verdict in ('missing', 'lost')
          and k.ranges && whole
        returning *
      )
      insert into recorder.known as k (stream, category, symbol, verdict, part, ranges, reason, noted_at, settled_at)
      select stream, category, symbol, verdict, lower(r), tstzmultirange(r), reason, noted_at, settled_at
      from touched cross join lateral unnest(ranges - whole) as r
      union all
      select stream, category, symbol, 'repaired', part, ranges, reason, noted_at, now() from touched where ranges <@ whole
      ${sql.raw(adding)};
      delete from recorder.known k
      where k.stream = of_stream and k.category = of_category and k.symbol = of_symbol and k.verdict = 'missing'
        and not exists (select from unnest(gaps) as r where tstzmultirange(r) = k.ranges);
      select count(*) into found from unnest(gaps) as r
      where not exists (
        select from recorder.known k
        where k.stream = of_stream and k.category = of_category and k.symbol = of_symbol and k.verdict in ('missing', 'lost')
          and k.part = lower(r) and k.ranges @> r);
      perform recorder.note_gaps(of_stream, of_category, of_symbol, '', '', 'missing', gaps, why);
      return found;
    end
    $$;
  `.execute(db)
  await commentOn(db, {
    'market.funding_rates': {
      kind: 'table',
      comment: 'A funding rate that was settled. Source: history-fund-rate.',
      columns: {
        ...keyComments,
        ts: 'When it was settled, by the service.',
        funding_rate: 'Rate, as a fraction of the value of a position. Above 0, longs paid shorts.',
        interval_hours: 'Hours since the settlement before it; NULL where that is not known.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
    'market.liquidations': {
      kind: 'table',
      comment: 'A position that was liquidated. Source: liquidations, which shows the last three days.',
      columns: {
        ...keyComments,
        ts: 'When it was liquidated, by the service.',
        side: 'As the service says it: buy means that a long position was liquidated.',
        price: 'Price, in quote coin.',
        amount: 'Amount, as the service sends it.',
        occurrence: '1, 2, … of liquidations that are equal in all of the above: they have no id.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
    'market.taker_flow': {
      kind: 'table',
      comment: 'Volume that takers bought and sold in five minutes. Source: futures-active-buy-sell.',
      columns: {
        ...keyComments,
        ts: 'Time of the period, by the service.',
        buy_volume: 'Volume that takers bought, as the service sends it.',
        sell_volume: 'Volume that takers sold, as the service sends it.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
    'market.long_short_ratios': commentOnShares('futures', 'futures-long-short'),
    'market.long_short_accounts': commentOnShares('accounts', 'futures-account-long-short'),
    'market.long_short_positions': commentOnShares('positions', 'futures-position-long-short'),
    'market.index_components': {
      kind: 'table',
      comment: 'A component of the index of a future over a period. Source: index-components.',
      columns: {
        ...keyComments,
        exchange: 'Exchange that the price comes from.',
        spot_pair: 'Its spot pair.',
        weight: 'Weight in the index, as the service sends it.',
        equivalent_price:
          'Its price when this version was first seen, in the terms of the index. It moves all the time and opens no version. NULL where the service does not say.',
        ...versionComments,
      },
    },
    'market.position_tiers': {
      kind: 'table',
      comment:
        'A tier of the positions in a future over a period. Source: position-tier; the names of its fields are assumed.',
      columns: {
        ...keyComments,
        tier: 'Number of the tier, from the smallest positions on.',
        min_value: 'Smallest position of the tier, by value (assumed: in quote coin). On the wire minTierValue.',
        max_value: 'Largest position of the tier; NULL where the service does not say. On the wire maxTierValue.',
        leverage: 'Highest leverage.',
        margin_rate: 'Maintenance margin, as a fraction of the value of a position. On the wire mmr.',
        ...versionComments,
      },
    },
    'market.open_interest_limits': {
      kind: 'table',
      comment:
        'How large positions in a future may be over a period. Source: oi-limit; the names of its fields are assumed.',
      columns: {
        ...keyComments,
        notional_value: 'Assumed: the most that one account may hold, in quote coin. On the wire notionalValue.',
        total_notional_value:
          'Assumed: the most that an account may hold with its sub-accounts, in quote coin; NULL where the service does not say. On the wire totalNotionalValue.',
        ...versionComments,
      },
    },
    'market.funding_forecasts': {
      kind: 'table',
      comment: 'The funding rate of the next settlement, as it forms, at a moment. Source: current-fund-rate.',
      columns: {
        ...keyComments,
        ts: 'Time of the response, by the service.',
        funding_rate:
          'Rate that would be settled now, as a fraction of the value of a position. Above 0, longs pay shorts.',
        interval_hours: 'Hours from one settlement to the next; NULL where the service does not say.',
        next_update: 'When it is settled next; NULL where the service does not say.',
        min_rate: 'Lowest rate that can be settled, as a fraction; NULL where the service does not say.',
        max_rate: 'Highest rate that can be settled, as a fraction; NULL where the service does not say.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
  })
}
