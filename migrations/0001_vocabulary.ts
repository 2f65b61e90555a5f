import { type Kysely, sql } from 'kysely'

/** Schemas and the enumerated types: enums, so that misspellings fail and values sort in their natural order. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create schema if not exists market;
    create schema if not exists recorder;
    comment on schema market is 'What was recorded: market data for analysts.';
    comment on schema recorder is 'The recorder''s own books: proven ranges, known gaps, revisions, rejected rows.';

    create type market.category as enum ('SPOT', 'MARGIN', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES');
    create type market.candle_type as enum ('market', 'mark', 'index', 'premium');
    create type market.candle_interval as enum
      ('1m', '3m', '5m', '15m', '30m', '1H', '4H', '6H', '12H', '1D');
    create type market.side as enum ('buy', 'sell');
    comment on type market.category is 'Product lines of the service.';
    comment on type market.candle_type is 'What a candle is made of: trades, mark price, index price or premium index.';
    comment on type market.candle_interval is 'Length of a candle; the names are the service''s and are case-sensitive.';
    comment on type market.side is 'Side of the taker of a fill.';
  `.execute(db)
}
