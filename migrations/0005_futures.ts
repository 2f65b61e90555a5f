import { type Kysely, sql } from 'kysely'
import { createTables, extra, finite, key, receivedAt } from './relations.js'

/** Columns of a row of a list, which is kept by its versions. */
const version = `${extra} As they were when this version was first seen.
    valid_from timestamptz not null -- When the recorder first saw this version.
    valid_to timestamptz check (valid_to > valid_from)
      -- When the recorder first saw it changed or gone (exclusive); NULL while it holds.`

const shares = (what: string, operation: string) => `
    -- How ${what} divide into long and short, in five minutes. Source: ${operation}.
    ${key}
    ts timestamptz not null -- Time of the period, by the service.
    ${receivedAt}
    ${extra}
    long_share numeric not null check (${finite('long_share')}) -- Share that is long, as a fraction.
    short_share numeric not null check (${finite('short_share')}) -- Share that is short, as a fraction.
    long_short_ratio numeric -- The first divided by the second; NULL where the service does not say.
    primary key (category, symbol, ts)`

/** The occurrence is part of the key of liquidations, because they have no id, and two equal ones are two liquidations. */
const tables = {
  'market.funding_rates': `
    -- A funding rate that was settled. Source: history-fund-rate.
    ${key}
    ts timestamptz not null -- When it was settled, by the service.
    funding_rate numeric not null check (${finite('funding_rate')})
      -- Rate, as a fraction of the value of a position. Above 0, longs paid shorts.
    interval_hours integer -- Hours since the settlement before it; NULL where that is not known.
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts)`,
  'market.funding_forecasts': `
    -- The funding rate of the next settlement, as it forms, at a moment. Source: current-fund-rate.
    ${key}
    ts timestamptz not null -- Time of the response, by the service.
    funding_rate numeric not null check (${finite('funding_rate')})
      -- Rate that would be settled now, as a fraction of the value of a position. Above 0, longs pay shorts.
    interval_hours integer -- Hours from one settlement to the next; NULL where the service does not say.
    next_update timestamptz -- When it is settled next; NULL where the service does not say.
    min_rate numeric -- Lowest rate that can be settled, as a fraction; NULL where the service does not say.
    max_rate numeric -- Highest rate that can be settled, as a fraction; NULL where the service does not say.
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts)`,
  'market.taker_flow': `
    -- Volume that takers bought and sold in five minutes. Source: futures-active-buy-sell.
    ${key}
    ts timestamptz not null -- Time of the period, by the service.
    ${receivedAt}
    ${extra}
    buy_volume numeric not null check (${finite('buy_volume')}) -- Volume that takers bought, as the service sends it.
    sell_volume numeric not null check (${finite('sell_volume')}) -- Volume that takers sold, as the service sends it.
    primary key (category, symbol, ts)`,
  'market.long_short_ratios': shares('futures', 'futures-long-short'),
  'market.long_short_accounts': shares('accounts', 'futures-account-long-short'),
  'market.long_short_positions': shares('positions', 'futures-position-long-short'),
  'market.index_components': `
    -- A component of the index of a future over a period. Source: index-components.
    ${key}
    exchange text not null check (exchange <> '') -- Exchange that the price comes from.
    spot_pair text not null check (spot_pair <> '') -- Its spot pair.
    weight numeric not null check (${finite('weight')}) -- Weight in the index, as the service sends it.
    equivalent_price numeric
      -- Its price when this version was first seen, in the terms of the index. It moves all the time and opens no
      -- version. NULL where the service does not say.
    ${version}
    primary key (category, symbol, exchange, spot_pair, valid_from)`,
  'market.liquidations': `
    -- A position that was liquidated. Source: liquidations, which shows the last three days.
    ${key}
    ts timestamptz not null -- When it was liquidated, by the service.
    side market.side not null -- As the service says it: buy means that a long position was liquidated.
    price numeric not null check (${finite('price')}) -- Price, in quote coin.
    amount numeric not null check (${finite('amount')})
      -- Amount, as the service sends it. Its unit is not documented: compare the sizes of fills.
    occurrence integer not null check (occurrence > 0)
      -- 1, 2, … of liquidations that are equal in all of the above: they have no id.
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts, side, price, amount, occurrence)`,
}

/** Tables of data that only futures have. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTables(db, tables)
  await sql`
    create unique index index_components_one_open on market.index_components (category, symbol, exchange, spot_pair)
      where valid_to is null;
  `.execute(db)
}
