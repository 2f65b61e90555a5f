import { type Kysely, sql } from 'kysely'
import { commentOn, createTables, extra, finite, key, receivedAt } from './relations.js'

/**
 * Columns that both kinds of order books compute from their first prices. The middle is a multiplication by 0.5, which is
 * exact. A division would be rounded.
 */
const bestPrices = `best_bid numeric generated always as (bid_prices[1]) stored
      -- First bid price, in quote coin; NULL when there are no bids. Computed.
    best_ask numeric generated always as (ask_prices[1]) stored
      -- First ask price, in quote coin; NULL when there are no asks. Computed.
    mid numeric generated always as ((bid_prices[1] + ask_prices[1]) * 0.5) stored
      -- Middle of the best bid and ask, exact, in quote coin; NULL when a side is empty. Computed.
    spread numeric generated always as (ask_prices[1] - bid_prices[1]) stored
      -- Best ask minus best bid, in quote coin; NULL when a side is empty. Computed.`

const tables = {
  'market.tickers': `
    -- A ticker at a moment. Source: tickers. NULL is "not set".
    ${key}
    ts timestamptz not null -- When the service generated it; its request time where it left that unset.
    last_price numeric -- Last traded price, in quote coin.
    bid1_price numeric -- Best bid, in quote coin.
    bid1_size numeric -- Size at the best bid, in base coin.
    ask1_price numeric -- Best ask, in quote coin.
    ask1_size numeric -- Size at the best ask, in base coin.
    open_price_24h numeric -- Price 24 hours before, in quote coin.
    high_price_24h numeric -- Highest price in 24 hours, in quote coin.
    low_price_24h numeric -- Lowest price in 24 hours, in quote coin.
    volume_24h numeric -- Volume traded in 24 hours, in base coin.
    turnover_24h numeric -- Turnover in 24 hours, in quote coin.
    price_24h_pcnt numeric -- Change of price in 24 hours, as the service sends it (a fraction: 0.01 is one percent).
    index_price numeric -- Futures: index price, in quote coin.
    mark_price numeric -- Futures: mark price, in quote coin.
    funding_rate numeric -- Futures: current funding rate, as a fraction.
    open_interest numeric -- Futures: open interest, as the service sends it.
    delivery_start_time timestamptz -- Delivery futures: when delivery begins.
    delivery_time timestamptz -- Delivery futures: when it is delivered.
    delivery_status text
      -- Delivery futures: delivery_config_period, delivery_normal, delivery_before (10 minutes before) or
      -- delivery_period.
    platform_turnover_24h numeric -- Reality stock tokens: turnover on the platform in 24 hours, in quote coin.
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts)`,
  'market.order_books': `
    -- A snapshot of an order book, one array element per level. As rows: market.order_book_levels. Source: orderbook.
    ${key}
    ts timestamptz not null -- Time of the snapshot, by the service.
    bid_prices numeric[] not null -- Bid prices, best (highest) first, in quote coin.
    bid_sizes numeric[] not null
      -- Size at each bid price, in base coin. Of COIN-FUTURES, the service names no unit.
    ask_prices numeric[] not null -- Ask prices, best (lowest) first, in quote coin.
    ask_sizes numeric[] not null
      -- Size at each ask price, in base coin. Of COIN-FUTURES, the service names no unit.
    ${bestPrices}
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts)
    check (cardinality(bid_prices) = cardinality(bid_sizes))
    check (cardinality(ask_prices) = cardinality(ask_sizes))`,
  'market.rpi_order_books': `
    -- A snapshot of an order book with RPI (retail price improvement) sizes apart. As rows:
    -- market.rpi_order_book_levels. Source: rpi-orderbook.
    ${key}
    ts timestamptz not null -- Time of the snapshot, by the service.
    bid_prices numeric[] not null -- Bid prices, best (highest) first, in quote coin.
    bid_sizes numeric[] not null -- Visible (non-RPI) size at each bid price, in base coin.
    bid_rpi_sizes numeric[] not null -- RPI size at each bid price, in base coin.
    ask_prices numeric[] not null -- Ask prices, best (lowest) first, in quote coin.
    ask_sizes numeric[] not null -- Visible (non-RPI) size at each ask price, in base coin.
    ask_rpi_sizes numeric[] not null -- RPI size at each ask price, in base coin.
    ${bestPrices}
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts)
    check (cardinality(bid_prices) = cardinality(bid_sizes) and cardinality(bid_prices) = cardinality(bid_rpi_sizes))
    check (cardinality(ask_prices) = cardinality(ask_sizes) and cardinality(ask_prices) = cardinality(ask_rpi_sizes))`,
  'market.fills': `
    -- A public fill (trade). Sources: fills, fills-history.
    ${key}
    ts timestamptz not null -- Time of the fill, by the service.
    exec_id text not null check (exec_id <> '') -- The service's identifier of the fill.
    exec_link_id text -- The service's identifier that links fills; NULL where it was not sent.
    side market.side not null -- Side of the taker.
    price numeric not null check (${finite('price')}) -- Price, in quote coin.
    size numeric not null check (${finite('size')}) -- Size: in quote coin for COIN-FUTURES, in base coin otherwise.
    is_rpi boolean -- True if it was filled against an RPI quote; NULL where the service does not say.
    source market.fill_source not null default 'live'
      -- live: from the newest fills. history: from the history of fills, which sends neither exec_link_id nor is_rpi.
    ${receivedAt}
    ${extra}
    primary key (category, symbol, ts, exec_id)`,
  'market.candles': `
    -- A candle. Sources: candles, history-candles. Later changes of closed ones: market.candle_revisions.
    ${key}
    type market.candle_type not null -- What it is made of: market (trades), mark, index or premium.
    interval market.candle_interval not null -- Length, as the service names it.
    open_time timestamptz not null -- When it opens, by the service (inclusive).
    open numeric not null check (${finite('open')}) -- First price, in quote coin (premium: a fraction).
    high numeric not null check (${finite('high')}) -- Highest price, in quote coin (premium: a fraction).
    low numeric not null check (${finite('low')}) -- Lowest price, in quote coin (premium: a fraction).
    close numeric not null check (${finite('close')}) -- Last price, in quote coin (premium: a fraction).
    base_volume numeric check (${finite('base_volume')})
      -- Volume, in base coin; 0 for mark, index and premium. Null where the service does not say, in old candles of
      -- tokenised stocks.
    quote_turnover numeric check (${finite('quote_turnover')})
      -- Turnover, in quote coin; 0 for mark, index and premium. Null where the volume is.
    is_closed boolean not null
      -- True if it is final: it was read after its close and a settle delay. False while it forms.
    primary key (category, symbol, type, interval, open_time)`,
}

const views = {
  'market.latest_tickers': `
    -- The newest ticker of each instrument, also of those that are gone. Turnovers of tokenised stocks are those of a
    -- stock exchange elsewhere, and their platform_turnover_24h is what was traded here.
    kind -- What it stands for, such as crypto or tokenised_stock. See market.instruments.
    disappeared_at -- When the list of instruments no longer had it; NULL while it is listed.`,
  'market.order_book_levels': `
    -- Order books, one row per price level. Ask for a category, symbol and range of ts.
    ${key}
    ts -- Time of the snapshot, by the service.
    side -- bid or ask.
    level -- 1 is the best price of its side.
    price -- Price, in quote coin.
    size -- Size at that price, in base coin.`,
  'market.rpi_order_book_levels': `
    -- Order books with RPI sizes, one row per price level. Ask for a category, symbol and range of ts.
    ${key}
    ts -- Time of the snapshot, by the service.
    side -- bid or ask.
    level -- 1 is the best price of its side.
    price -- Price, in quote coin.
    size -- Visible (non-RPI) size at that price, in base coin.
    rpi_size -- RPI size at that price, in base coin.`,
}

/** Tickers, order books, fills and candles. Keys identify a row by the market alone, so a replay changes nothing. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTables(db, tables)
  await sql`
    -- This takes one index descent for each instrument. "distinct on" would read the whole history of tickers.
    create view market.latest_tickers as
      select t.*, i.kind, i.disappeared_at
      from market.instruments i
      cross join lateral (
        select * from market.tickers t
        where t.category = i.category and t.symbol = i.symbol
        order by t.ts desc
        limit 1
      ) t
      -- Margin trades on the spot books and has no tickers. A search for them would read all of the past.
      where i.category <> 'MARGIN';

    create view market.order_book_levels as
      select b.category, b.symbol, b.ts, s.side, l.level::integer as level, l.price, l.size
      from market.order_books b
      cross join lateral (
        values ('bid', b.bid_prices, b.bid_sizes), ('ask', b.ask_prices, b.ask_sizes)
      ) as s (side, prices, sizes)
      cross join lateral unnest(s.prices, s.sizes) with ordinality as l (price, size, level);

    create view market.rpi_order_book_levels as
      select b.category, b.symbol, b.ts, s.side, l.level::integer as level, l.price, l.size, l.rpi_size
      from market.rpi_order_books b
      cross join lateral (
        values ('bid', b.bid_prices, b.bid_sizes, b.bid_rpi_sizes), ('ask', b.ask_prices, b.ask_sizes, b.ask_rpi_sizes)
      ) as s (side, prices, sizes, rpi_sizes)
      cross join lateral unnest(s.prices, s.sizes, s.rpi_sizes) with ordinality as l (price, size, rpi_size, level);
  `.execute(db)
  await commentOn(db, 'view', { 'market.latest_tickers': tables['market.tickers'] })
  await commentOn(db, 'view', views)
}
