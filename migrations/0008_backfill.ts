import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** What the backfill of candles remembers besides coverage. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.empty_range (
      stream text not null check (stream <> ''),
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type text not null default '' check (type = '' or type::market.candle_type is not null),
      interval text not null default '' check (interval = '' or interval::market.candle_interval is not null),
      ranges tstzmultirange not null,
      updated_at timestamptz not null default now(),
      primary key (stream, category, symbol, type, interval)
    );

    create table recorder.candle_reach (
      category market.category not null,
      type market.candle_type not null,
      interval market.candle_interval not null,
      reached interval not null,
      beyond interval,
      learned_at timestamptz not null default now(),
      primary key (category, type, interval)
    );
  `.execute(db)

  await commentOn(db, {
    'recorder.empty_range': {
      kind: 'table',
      comment: 'Ranges in which a series was confirmed to have no rows: before it begins. Never part of the coverage.',
      columns: {
        stream: 'What is recorded, named as the table that holds it.',
        ...keyComments,
        type: 'Candles: market, mark, index or premium; empty otherwise.',
        interval: 'Candles: length as the service names it; empty otherwise.',
        ranges: 'Confirmed ranges, half-open.',
        updated_at: 'When a range was last added.',
      },
    },
    'recorder.candle_reach': {
      kind: 'table',
      comment: 'How far back the operation candles was seen to respond; what is older comes from history-candles.',
      columns: {
        category: keyComments.category,
        type: 'What the candles are made of: market, mark, index or premium.',
        interval: 'Length of the candles, as the service names it.',
        reached: 'Age up to which it answered.',
        beyond: 'Age at which history-candles had candles and it had none; NULL where that was not met.',
        learned_at: 'When this was last learned. It is looked at again after a week.',
      },
    },
  })
}
