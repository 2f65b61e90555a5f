import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** Which service the database records; and what analysts want to see of what changed, was rejected or is gone. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.service (
      is_only boolean primary key default true check (is_only),
      base_url text not null check (base_url <> ''),
      noted_at timestamptz not null default now()
    );

    create or replace view market.latest_tickers as
      select t.*, i.kind, i.disappeared_at
      from market.instruments i
      cross join lateral (
        select * from market.tickers t
        where t.category = i.category and t.symbol = i.symbol
        order by t.ts desc
        limit 1
      ) t
      -- Margin trades on the spot books and has no tickers: looking for them would go through all of the past.
      where i.category <> 'MARGIN';

    create view market.candle_revisions as
      select category, symbol, type, interval, open_time, revised_at,
        old_open, old_high, old_low, old_close, old_base_volume, old_quote_turnover,
        new_open, new_high, new_low, new_close, new_base_volume, new_quote_turnover,
        restatement_id is not null as is_restatement
      from recorder.candle_revision;

    create view market.rejected_rows as
      select case when parameters ->> 'category' = any (enum_range(null::market.category)::text[])
          then (parameters ->> 'category')::market.category end as category,
        parameters ->> 'symbol' as symbol,
        operation, parameters, reason, raw, raw_bytes, raw_sha256, first_seen_at, last_seen_at, times_seen
      from recorder.rejected_row;

    -- Default privileges belong to who creates tables, and that may be another login by now.
    do $$ begin
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant select on market.candle_revisions, market.rejected_rows to market_reader;
      end if;
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant select on market.candle_revisions, market.rejected_rows to recorder_writer;
        grant select, insert, update on recorder.service to recorder_writer;
      end if;
    end $$;
  `.execute(db)
  await commentOn(db, {
    'recorder.service': {
      kind: 'table',
      comment: 'The service whose data is in this database: one row, from the first start on.',
      columns: {
        is_only: 'Always true: there is one row.',
        base_url: 'Its address, as configured. Recording from another host is refused unless that is accepted.',
        noted_at: 'When the address was noted.',
      },
    },
    'market.latest_tickers': {
      kind: 'view',
      comment:
        'The newest ticker of each instrument, also of those that are gone. Turnovers of tokenised stocks are those of a stock ' +
        'exchange elsewhere: rank by coalesce(platform_turnover_24h, turnover_24h).',
      columns: {
        kind: 'What it stands for, such as crypto or tokenised_stock. See market.instruments.',
        disappeared_at: 'When the list of instruments no longer had it; NULL while it is listed.',
      },
    },
    'market.candle_revisions': {
      kind: 'view',
      comment: 'Closed candles that the service later changed: one row for each change, with old and new values.',
      columns: {
        ...keyComments,
        type: 'What the candle is made of: market, mark, index or premium.',
        interval: 'Length of the candle, as the service names it.',
        open_time: 'When the candle opens (inclusive), UTC.',
        revised_at: 'When the changed values were stored.',
        ...changedValues('old'),
        ...changedValues('new'),
        is_restatement: 'Whether it is part of history that was rewritten as a whole: see market.restatements.',
      },
    },
    'market.rejected_rows': {
      kind: 'view',
      comment:
        'Rows of responses that could not be understood, or of which a part was left out, with the reason. The other rows of the ' +
        'response were stored.',
      columns: {
        category: 'Product line that was asked for; NULL where the operation has none.',
        symbol: 'Instrument that was asked for; NULL where a response is about all of them. The row itself is in raw.',
        operation: 'Operation of the service that responded with it.',
        parameters: 'Parameters of the request.',
        reason: 'Why it could not be understood.',
        raw: 'The start of its text as it was sent, at most 4,096 bytes.',
        raw_bytes: 'Length of its whole text, in bytes.',
        raw_sha256: 'SHA-256 of its whole text, in hexadecimal digits.',
        first_seen_at: 'When it was first received.',
        last_seen_at: 'When it was last received.',
        times_seen: 'How often it was received.',
      },
    },
    'market.candles': {
      kind: 'table',
      comment: 'A candle. Sources: candles, history-candles. Later changes of closed ones: market.candle_revisions.',
      columns: {},
    },
    'market.restatements': {
      kind: 'view',
      comment:
        'History that the service rewrote as a whole, as after a split: prices were multiplied by factor and volumes divided by ' +
        'it. The stored candles are the new ones; the old values are in market.candle_revisions.',
      columns: { candles: 'How many candles changed. Their old values are in market.candle_revisions.' },
    },
  })
}

function changedValues(when: 'old' | 'new'): Record<string, string> {
  const prices = ['open', 'high', 'low', 'close'].map((name) => [
    `${when}_${name}`,
    `The ${when} ${name}, in quote coin.`,
  ])
  return {
    ...(Object.fromEntries(prices) as Record<string, string>),
    [`${when}_base_volume`]: `The ${when} volume, in base coin.`,
    [`${when}_quote_turnover`]: `The ${when} turnover, in quote coin.`,
  }
}
