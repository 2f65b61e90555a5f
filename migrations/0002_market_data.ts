import { type Kysely, sql } from 'kysely'
import { commentOn, extraComment, keyComments, receivedAtComment } from './comments.js'
import { finite } from './fragments.js'

/** Tickers, order books, fills and candles. Keys identify a row by the market alone, so a replay changes nothing. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table market.tickers (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      last_price numeric, bid1_price numeric, bid1_size numeric, ask1_price numeric, ask1_size numeric,
      open_price_24h numeric, high_price_24h numeric, low_price_24h numeric,
      volume_24h numeric, turnover_24h numeric, price_24h_pcnt numeric,
      index_price numeric, mark_price numeric, funding_rate numeric, open_interest numeric,
      delivery_start_time timestamptz, delivery_time timestamptz, delivery_status text,
      platform_turnover_24h numeric,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts)
    );

    create table market.order_books (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      bid_prices numeric[] not null, bid_sizes numeric[] not null,
      ask_prices numeric[] not null, ask_sizes numeric[] not null,
      best_bid numeric generated always as (bid_prices[1]) stored,
      best_ask numeric generated always as (ask_prices[1]) stored,
      -- A multiplication by 0.5 is exact, and a division is rounded.
      mid numeric generated always as ((bid_prices[1] + ask_prices[1]) * 0.5) stored,
      spread numeric generated always as (ask_prices[1] - bid_prices[1]) stored,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts),
      check (cardinality(bid_prices) = cardinality(bid_sizes)),
      check (cardinality(ask_prices) = cardinality(ask_sizes))
    );

    create table market.rpi_order_books (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      bid_prices numeric[] not null, bid_sizes numeric[] not null, bid_rpi_sizes numeric[] not null,
      ask_prices numeric[] not null, ask_sizes numeric[] not null, ask_rpi_sizes numeric[] not null,
      best_bid numeric generated always as (bid_prices[1]) stored,
      best_ask numeric generated always as (ask_prices[1]) stored,
      mid numeric generated always as ((bid_prices[1] + ask_prices[1]) * 0.5) stored,
      spread numeric generated always as (ask_prices[1] - bid_prices[1]) stored,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts),
      check (cardinality(bid_prices) = cardinality(bid_sizes) and cardinality(bid_prices) = cardinality(bid_rpi_sizes)),
      check (cardinality(ask_prices) = cardinality(ask_sizes) and cardinality(ask_prices) = cardinality(ask_rpi_sizes))
    );

    create table market.fills (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      exec_id text not null check (exec_id <> ''),
      exec_link_id text,
      side market.side not null,
      price numeric not null check (${finite('price')}),
      size numeric not null check (${finite('size')}),
      is_rpi boolean,
      source market.fill_source not null default 'live',
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts, exec_id)
    );

    create table market.candles (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type market.candle_type not null,
      interval market.candle_interval not null,
      open_time timestamptz not null,
      open numeric not null check (${finite('open')}),
      high numeric not null check (${finite('high')}),
      low numeric not null check (${finite('low')}),
      close numeric not null check (${finite('close')}),
      base_volume numeric check (${finite('base_volume')}),
      quote_turnover numeric check (${finite('quote_turnover')}),
      is_closed boolean not null,
      primary key (category, symbol, type, interval, open_time)
    );

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

  const book = {
    ...keyComments,
    ts: 'Time of the snapshot, by the service.',
    bid_prices: 'Bid prices, best (highest) first, in quote coin.',
    bid_sizes: 'Size at each bid price, in base coin.',
    ask_prices: 'Ask prices, best (lowest) first, in quote coin.',
    ask_sizes: 'Size at each ask price, in base coin.',
    best_bid: 'First bid price, in quote coin; NULL when there are no bids. Computed.',
    best_ask: 'First ask price, in quote coin; NULL when there are no asks. Computed.',
    mid: 'Middle of the best bid and ask, exact, in quote coin; NULL when a side is empty. Computed.',
    spread: 'Best ask minus best bid, in quote coin; NULL when a side is empty. Computed.',
    received_at: receivedAtComment,
    extra: extraComment,
  }
  await commentOn(db, {
    'market.tickers': {
      kind: 'table',
      comment: 'A ticker at a moment. Source: tickers. NULL is "not set".',
      columns: {
        ...keyComments,
        ts: 'When the service generated it; its request time where it left that unset.',
        last_price: 'Last traded price, in quote coin.',
        bid1_price: 'Best bid, in quote coin.',
        bid1_size: 'Size at the best bid, in base coin.',
        ask1_price: 'Best ask, in quote coin.',
        ask1_size: 'Size at the best ask, in base coin.',
        open_price_24h: 'Price 24 hours before, in quote coin.',
        high_price_24h: 'Highest price in 24 hours, in quote coin.',
        low_price_24h: 'Lowest price in 24 hours, in quote coin.',
        volume_24h: 'Volume traded in 24 hours, in base coin.',
        turnover_24h: 'Turnover in 24 hours, in quote coin.',
        price_24h_pcnt: 'Change of price in 24 hours, as the service sends it (a fraction: 0.01 is one percent).',
        index_price: 'Futures: index price, in quote coin.',
        mark_price: 'Futures: mark price, in quote coin.',
        funding_rate: 'Futures: current funding rate, as a fraction.',
        open_interest: 'Futures: open interest, as the service sends it.',
        delivery_start_time: 'Delivery futures: when delivery begins.',
        delivery_time: 'Delivery futures: when it is delivered.',
        delivery_status:
          'Delivery futures: delivery_config_period, delivery_normal, delivery_before (10 minutes before) or delivery_period.',
        platform_turnover_24h: 'Reality stock tokens: turnover on the platform in 24 hours, in quote coin.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
    'market.order_books': {
      kind: 'table',
      comment:
        'A snapshot of an order book, one array element per level. As rows: market.order_book_levels. Source: orderbook.',
      columns: book,
    },
    'market.rpi_order_books': {
      kind: 'table',
      comment:
        'A snapshot of an order book with RPI (retail price improvement) sizes apart. ' +
        'As rows: market.rpi_order_book_levels. Source: rpi-orderbook.',
      columns: {
        ...book,
        bid_sizes: 'Visible (non-RPI) size at each bid price, in base coin.',
        ask_sizes: 'Visible (non-RPI) size at each ask price, in base coin.',
        bid_rpi_sizes: 'RPI size at each bid price, in base coin.',
        ask_rpi_sizes: 'RPI size at each ask price, in base coin.',
      },
    },
    'market.fills': {
      kind: 'table',
      comment: 'A public fill (trade). Sources: fills, fills-history.',
      columns: {
        ...keyComments,
        ts: 'Time of the fill, by the service.',
        exec_id: "The service's identifier of the fill.",
        exec_link_id: "The service's identifier that links fills; NULL where it was not sent.",
        side: 'Side of the taker.',
        price: 'Price, in quote coin.',
        size: 'Size: in quote coin for COIN-FUTURES, in base coin otherwise.',
        is_rpi: 'Whether it was filled against an RPI quote; NULL where it was not sent.',
        source:
          'live: from the newest fills. history: from the history of fills, which sends neither exec_link_id nor is_rpi.',
        received_at: receivedAtComment,
        extra: extraComment,
      },
    },
    'market.candles': {
      kind: 'table',
      comment: 'A candle. Sources: candles, history-candles. Later changes of closed ones: market.candle_revisions.',
      columns: {
        ...keyComments,
        type: 'What it is made of: market (trades), mark, index or premium.',
        interval: 'Length, as the service names it.',
        open_time: 'When it opens, by the service (inclusive).',
        open: 'First price, in quote coin (premium: a fraction).',
        high: 'Highest price, in quote coin (premium: a fraction).',
        low: 'Lowest price, in quote coin (premium: a fraction).',
        close: 'Last price, in quote coin (premium: a fraction).',
        base_volume:
          'Volume, in base coin; 0 for mark, index and premium. Null where the service does not say, in old candles of tokenised stocks.',
        quote_turnover: 'Turnover, in quote coin; 0 for mark, index and premium. Null where the volume is.',
        is_closed: 'Whether it is final: it was read after its close and a settle delay. false while it forms.',
      },
    },
  })

  await sql`
    do $$
    declare c record;
    begin
      for c in
        select a.attname, d.description
        from pg_attribute a
        join pg_description d on d.objoid = a.attrelid and d.classoid = 'pg_class'::regclass and d.objsubid = a.attnum
        where a.attrelid = 'market.tickers'::regclass and a.attnum > 0
      loop
        execute format('comment on column market.latest_tickers.%I is %L', c.attname, c.description);
      end loop;
    end
    $$`.execute(db)

  const levels = {
    ...keyComments,
    ts: 'Time of the snapshot, by the service.',
    side: 'bid or ask.',
    level: '1 is the best price of its side.',
    price: 'Price, in quote coin.',
    size: 'Size at that price, in base coin.',
  }
  await commentOn(db, {
    'market.latest_tickers': {
      kind: 'view',
      comment:
        'The newest ticker of each instrument, also of those that are gone. Turnovers of tokenised stocks are those of a stock ' +
        'exchange elsewhere, and their platform_turnover_24h is what was traded here.',
      columns: {
        kind: 'What it stands for, such as crypto or tokenised_stock. See market.instruments.',
        disappeared_at: 'When the list of instruments no longer had it; NULL while it is listed.',
      },
    },
    'market.order_book_levels': {
      kind: 'view',
      comment: 'Order books, one row per price level. Ask for a category, symbol and range of ts.',
      columns: levels,
    },
    'market.rpi_order_book_levels': {
      kind: 'view',
      comment: 'Order books with RPI sizes, one row per price level. Ask for a category, symbol and range of ts.',
      columns: {
        ...levels,
        size: 'Visible (non-RPI) size at that price, in base coin.',
        rpi_size: 'RPI size at that price, in base coin.',
      },
    },
  })
}
