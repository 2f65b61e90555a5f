import { type Kysely, sql } from 'kysely'
import { commentOn, createTables, extra, key } from './relations.js'

/** Schemas and enumerated types. Enums reject misspelt values and sort in their natural order. */
const vocabulary = sql`
  create schema if not exists market;
  create schema if not exists recorder;
  comment on schema market is 'What was recorded: market data for analysts.';
  comment on schema recorder is 'The recorder''s own accounts: proven ranges, known gaps, revisions, rejected rows.';

  create type market.category as enum ('SPOT', 'MARGIN', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES');
  create type market.candle_type as enum ('market', 'mark', 'index', 'premium');
  -- Months are left out, because their length varies.
  create type market.candle_interval as enum (
    '1m', '3m', '5m', '15m', '30m', '1H', '4H', '6H', '12H', '1D',
    '3D', '1W', '6Hutc', '12Hutc', '1Dutc', '3Dutc', '1Wutc');
  create type market.side as enum ('buy', 'sell');
  create type market.fill_source as enum ('live', 'history');
  comment on type market.category is 'Product lines of the service.';
  comment on type market.candle_type is 'What a candle is made of: trades, mark price, index price or premium index.';
  comment on type market.candle_interval is
    'Length of a candle; the names are the service''s and are case-sensitive. Days and longer ones begin at the service''s midnight, those that end in utc at that of UTC.';
  comment on type market.side is 'Side of the taker of a fill.';
  comment on type market.fill_source is 'Operation that a fill came from: the newest fills, or their history.';`

const specification = `
    base_coin text -- Base coin. Case-sensitive where the symbol is upper case.
    quote_coin text -- Quote coin.
    status text
      -- listed (not yet open), online, limit_open (opening restricted), limit_close (closing restricted), offline
      -- (delisted or under maintenance), restrictedAPI.
    type text -- Futures: perpetual or delivery.
    symbol_type text -- crypto, metal, stock or commodity.
    is_rwa boolean -- True if it stands for a real-world asset.
    is_reality boolean -- True if it is a Reality stock token.
    area_symbol boolean -- The service's "areaSymbol" flag, sent only where it is set.
    price_precision bigint -- Decimal places allowed for a price.
    quantity_precision bigint -- Decimal places allowed for a quantity.
    quote_precision bigint -- Decimal places of the quote-coin amount of a market order.
    price_multiplier numeric -- Futures: a price must be a multiple of it, in quote coin.
    quantity_multiplier numeric -- Futures: a quantity must be a multiple of it, in base coin.
    min_order_qty numeric -- Smallest order, in base coin.
    max_order_qty numeric -- Largest limit order, in base coin; NULL is no limit.
    max_market_order_qty numeric -- Largest market order, in base coin.
    min_order_amount numeric -- Smallest order, in quote coin.
    max_market_order_amount numeric -- Spot: largest market order, in quote coin.
    max_symbol_order_num bigint -- Deprecated by the service: open orders allowed per instrument.
    max_product_order_num bigint -- Open orders allowed per product line.
    max_position_num bigint -- Positions allowed per instrument.
    buy_limit_price_ratio numeric -- Furthest buy limit price from the market price, as a fraction.
    sell_limit_price_ratio numeric -- Furthest sell limit price from the market price, as a fraction.
    fee_rate_up_ratio numeric -- Futures: markup on fees, as a fraction.
    maker_fee_rate numeric -- Futures: maker fee as a fraction (0.0002 is 0.02 percent).
    taker_fee_rate numeric -- Futures: taker fee as a fraction.
    open_cost_up_ratio numeric -- Futures: markup on the opening cost, as a fraction.
    fund_interval bigint -- Futures: hours between funding settlements.
    min_leverage numeric -- Lowest leverage.
    max_leverage numeric -- Highest leverage.
    max_crossed_leverage numeric -- Margin: highest leverage in cross mode.
    max_isolated_leverage numeric -- Margin: highest leverage in isolated mode.
    warning_risk_ratio numeric -- Margin: risk ratio at which a warning is sent, as a fraction.
    liquidation_risk_ratio numeric -- Margin: risk ratio at which a position is liquidated, as a fraction.
    user_min_borrow numeric -- Margin: smallest loan.
    is_isolated_base_borrowable boolean -- Margin: whether the base coin can be borrowed in isolated mode.
    is_isolated_quoted_borrowable boolean -- Margin: whether the quote coin can be borrowed in isolated mode.
    launch_time timestamptz -- When trading opened or will open.
    off_time timestamptz -- Futures: when trading halts.
    limit_open_time timestamptz
      -- Futures: from when opening positions is restricted; set means maintenance under way or planned.
    maintain_time timestamptz -- Futures: time of maintenance.
    delivery_time timestamptz -- Delivery futures: when it is delivered.
    delivery_start_time timestamptz -- Delivery futures: when delivery begins.
    delivery_period text -- Delivery futures: this_quarter or next_quarter.
    ${extra}
    kind text not null check (kind <> '')
      -- What it stands for: crypto, tokenised_stock (is_reality; its ticker follows a stock exchange elsewhere and
      -- little of it trades here), rwa_perpetual (is_rwa futures), rwa_token (other is_rwa), stock, metal, commodity (by
      -- symbol_type where no flag is set) or other. Derived by the recorder: symbol_type alone was seen to be wrong.`

const tables = {
  'market.instruments': `
    -- An instrument as the service describes it now. Source: instruments. NULL is "not set".
    ${key}
    ${specification}
    first_seen_at timestamptz not null -- When the recorder first saw it.
    updated_at timestamptz not null -- When the recorder last saw a change in it.
    disappeared_at timestamptz -- When the service had stopped listing it; NULL while it is listed.
    primary key (category, symbol)`,
  'market.instrument_history': `
    -- The specification of an instrument over a period. Periods of an instrument never overlap.
    ${key}
    ${specification}
    valid_from timestamptz not null -- When the recorder first saw this version.
    valid_to timestamptz check (valid_to > valid_from)
      -- When the recorder first saw it changed or gone (exclusive); NULL while it holds.
    primary key (category, symbol, valid_from)`,
  'market.rpi_symbols': `
    -- Membership of the list of instruments with RPI (retail price improvement) quotes. Source: rpi-symbols.
    ${key}
    valid_from timestamptz not null -- When the recorder first saw it on the list.
    valid_to timestamptz check (valid_to > valid_from)
      -- When the recorder first saw it gone (exclusive); NULL while it is on the list.
    primary key (category, symbol, valid_from)`,
}

/** The vocabulary, the instruments with their history, and the list of instruments with RPI quotes. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await vocabulary.execute(db)
  await createTables(db, tables)
  await sql`
    create unique index instrument_history_one_open on market.instrument_history (category, symbol)
      where valid_to is null;
    create unique index rpi_symbols_one_open on market.rpi_symbols (category, symbol) where valid_to is null;
  `.execute(db)
  // The table is there before the first migration.
  await commentOn(db, 'table', {
    'recorder.migration': `
      -- Migrations that have been applied to this database. The table is locked while migrations run.
      -- One row stands for the functions: when they differ from those of the program, all are made anew.
      name -- Name of the migration; of the functions, the version of the program that made them and their digest.
      timestamp -- When it was applied (ISO 8601, UTC).`,
  })
}
