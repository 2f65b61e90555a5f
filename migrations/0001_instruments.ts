import { type Kysely, sql } from 'kysely'
import { commentOn, extraComment, keyComments } from './comments.js'

/** Schemas and enumerated types. Enums reject misspelt values and sort in their natural order. */
const vocabulary = sql`
  create schema if not exists market;
  create schema if not exists recorder;
  comment on schema market is 'What was recorded: market data for analysts.';
  comment on schema recorder is 'The recorder''s own books: proven ranges, known gaps, revisions, rejected rows.';

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

const specification = sql.raw(`
  base_coin text, quote_coin text, status text, type text, symbol_type text,
  is_rwa boolean, is_reality boolean, area_symbol boolean,
  price_precision bigint, quantity_precision bigint, quote_precision bigint,
  price_multiplier numeric, quantity_multiplier numeric,
  min_order_qty numeric, max_order_qty numeric, max_market_order_qty numeric,
  min_order_amount numeric, max_market_order_amount numeric,
  max_symbol_order_num bigint, max_product_order_num bigint, max_position_num bigint,
  buy_limit_price_ratio numeric, sell_limit_price_ratio numeric,
  fee_rate_up_ratio numeric, maker_fee_rate numeric, taker_fee_rate numeric, open_cost_up_ratio numeric,
  fund_interval bigint,
  min_leverage numeric, max_leverage numeric, max_crossed_leverage numeric, max_isolated_leverage numeric,
  warning_risk_ratio numeric, liquidation_risk_ratio numeric, user_min_borrow numeric,
  is_isolated_base_borrowable boolean, is_isolated_quoted_borrowable boolean,
  launch_time timestamptz, off_time timestamptz, limit_open_time timestamptz, maintain_time timestamptz,
  delivery_time timestamptz, delivery_start_time timestamptz, delivery_period text,
  extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
  kind text not null check (kind <> '')`)

const specificationComments = {
  base_coin: 'Base coin. Case-sensitive where the symbol is upper case.',
  quote_coin: 'Quote coin.',
  status:
    'listed (not yet open), online, limit_open (opening restricted), limit_close (closing restricted), ' +
    'offline (delisted or under maintenance), restrictedAPI.',
  type: 'Futures: perpetual or delivery.',
  symbol_type: 'crypto, metal, stock or commodity.',
  is_rwa: 'Whether it stands for a real-world asset.',
  is_reality: 'Whether it is a Reality stock token.',
  area_symbol: 'The service\'s "areaSymbol" flag, sent only where it is set.',
  price_precision: 'Decimal places allowed for a price.',
  quantity_precision: 'Decimal places allowed for a quantity.',
  quote_precision: 'Decimal places of the quote-coin amount of a market order.',
  price_multiplier: 'Futures: a price must be a multiple of it, in quote coin.',
  quantity_multiplier: 'Futures: a quantity must be a multiple of it, in base coin.',
  min_order_qty: 'Smallest order, in base coin.',
  max_order_qty: 'Largest limit order, in base coin; NULL is no limit.',
  max_market_order_qty: 'Largest market order, in base coin.',
  min_order_amount: 'Smallest order, in quote coin.',
  max_market_order_amount: 'Spot: largest market order, in quote coin.',
  max_symbol_order_num: 'Deprecated by the service: open orders allowed per instrument.',
  max_product_order_num: 'Open orders allowed per product line.',
  max_position_num: 'Positions allowed per instrument.',
  buy_limit_price_ratio: 'Furthest buy limit price from the market price, as a fraction.',
  sell_limit_price_ratio: 'Furthest sell limit price from the market price, as a fraction.',
  fee_rate_up_ratio: 'Futures: markup on fees, as a fraction.',
  maker_fee_rate: 'Futures: maker fee as a fraction (0.0002 is 0.02 percent).',
  taker_fee_rate: 'Futures: taker fee as a fraction.',
  open_cost_up_ratio: 'Futures: markup on the opening cost, as a fraction.',
  fund_interval: 'Futures: hours between funding settlements.',
  min_leverage: 'Lowest leverage.',
  max_leverage: 'Highest leverage.',
  max_crossed_leverage: 'Margin: highest leverage in cross mode.',
  max_isolated_leverage: 'Margin: highest leverage in isolated mode.',
  warning_risk_ratio: 'Margin: risk ratio at which a warning is sent, as a fraction.',
  liquidation_risk_ratio: 'Margin: risk ratio at which a position is liquidated, as a fraction.',
  user_min_borrow: 'Margin: smallest loan.',
  is_isolated_base_borrowable: 'Margin: whether the base coin can be borrowed in isolated mode.',
  is_isolated_quoted_borrowable: 'Margin: whether the quote coin can be borrowed in isolated mode.',
  launch_time: 'When trading opened or will open.',
  off_time: 'Futures: when trading halts.',
  limit_open_time: 'Futures: from when opening positions is restricted; set means maintenance under way or planned.',
  maintain_time: 'Futures: time of maintenance.',
  delivery_time: 'Delivery futures: when it is delivered.',
  delivery_start_time: 'Delivery futures: when delivery begins.',
  delivery_period: 'Delivery futures: this_quarter or next_quarter.',
  extra: extraComment,
  kind:
    'What it stands for: crypto, tokenised_stock (is_reality; its ticker follows a stock exchange elsewhere and little of it trades here), ' +
    'rwa_perpetual (is_rwa futures), rwa_token (other is_rwa), stock, metal, commodity (by symbol_type where no flag is set) or other. ' +
    'Derived by the recorder: symbol_type alone was seen to be wrong.',
}

/** The vocabulary, the instruments with their history, and the list of instruments with RPI quotes. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await vocabulary.execute(db)
  await sql`
    create table market.instruments (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ${specification},
      first_seen_at timestamptz not null,
      updated_at timestamptz not null,
      disappeared_at timestamptz,
      primary key (category, symbol)
    );

    create table market.instrument_history (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ${specification},
      valid_from timestamptz not null,
      valid_to timestamptz check (valid_to > valid_from),
      primary key (category, symbol, valid_from)
    );
    create unique index instrument_history_one_open on market.instrument_history (category, symbol)
      where valid_to is null;

    create table market.rpi_symbols (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      valid_from timestamptz not null,
      valid_to timestamptz check (valid_to > valid_from),
      primary key (category, symbol, valid_from)
    );
    create unique index rpi_symbols_one_open on market.rpi_symbols (category, symbol) where valid_to is null;
  `.execute(db)
  await commentOn(db, {
    // The migrator makes its own tables before the first migration.
    'recorder.migration': {
      kind: 'table',
      comment: 'Migrations that have been applied to this database.',
      columns: { name: 'Name of the migration.', timestamp: 'When it was applied (ISO 8601, UTC).' },
    },
    'recorder.migration_lock': {
      kind: 'table',
      comment: 'Taken while migrations run, so that two processes do not run them at once.',
      columns: { id: 'Always migration_lock.', is_locked: 'Unused: the whole table is locked instead.' },
    },
    'market.instruments': {
      kind: 'table',
      comment: 'An instrument as the service describes it now. Source: instruments. NULL is "not set".',
      columns: {
        ...keyComments,
        ...specificationComments,
        first_seen_at: 'When the recorder first saw it.',
        updated_at: 'When the recorder last saw a change in it.',
        disappeared_at: 'When the service had stopped listing it; NULL while it is listed.',
      },
    },
    'market.instrument_history': {
      kind: 'table',
      comment: 'The specification of an instrument over a period. Periods of an instrument never overlap.',
      columns: {
        ...keyComments,
        ...specificationComments,
        valid_from: 'When the recorder first saw this version.',
        valid_to: 'When the recorder first saw it changed or gone (exclusive); NULL while it holds.',
      },
    },
    'market.rpi_symbols': {
      kind: 'table',
      comment: 'Membership of the list of instruments with RPI (retail price improvement) quotes. Source: rpi-symbols.',
      columns: {
        ...keyComments,
        valid_from: 'When the recorder first saw it on the list.',
        valid_to: 'When the recorder first saw it gone (exclusive); NULL while it is on the list.',
      },
    },
  })
}
