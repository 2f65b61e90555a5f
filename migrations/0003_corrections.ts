import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** Closed candles that changed later, history that was rewritten as a whole, and rows that could not be understood. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.restatement (
      id bigint generated always as identity primary key,
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type market.candle_type not null,
      interval market.candle_interval not null,
      from_time timestamptz not null,
      to_time timestamptz not null check (from_time < to_time),
      numerator numeric not null check (numerator > 0),
      denominator numeric not null check (denominator > 0),
      candles bigint not null,
      detected_at timestamptz not null default now()
    );
    create index restatement_series on recorder.restatement (category, symbol, type, interval);

    create table recorder.candle_revision (
      id bigint generated always as identity primary key,
      category market.category not null,
      symbol text not null,
      type market.candle_type not null,
      interval market.candle_interval not null,
      open_time timestamptz not null,
      revised_at timestamptz not null,
      old_open numeric not null, old_high numeric not null, old_low numeric not null, old_close numeric not null,
      old_base_volume numeric, old_quote_turnover numeric,
      new_open numeric not null, new_high numeric not null, new_low numeric not null, new_close numeric not null,
      new_base_volume numeric, new_quote_turnover numeric,
      restatement_id bigint references recorder.restatement (id)
    );
    create index candle_revision_candle on recorder.candle_revision (category, symbol, type, interval, open_time);
    -- This index serves queries for the revisions of a day, whatever the instrument.
    create index candle_revision_open_time on recorder.candle_revision (open_time);
    create index candle_revision_revised_at on recorder.candle_revision (revised_at);
    create index candle_revision_restatement on recorder.candle_revision (restatement_id) where restatement_id is not null;

    -- A trigger sees the values that are really replaced, whoever writes.
    create function recorder.log_candle_revision() returns trigger language plpgsql as $$
    begin
      insert into recorder.candle_revision (
        category, symbol, type, interval, open_time, revised_at,
        old_open, old_high, old_low, old_close, old_base_volume, old_quote_turnover,
        new_open, new_high, new_low, new_close, new_base_volume, new_quote_turnover
      ) values (
        old.category, old.symbol, old.type, old.interval, old.open_time, clock_timestamp(),
        old.open, old.high, old.low, old.close, old.base_volume, old.quote_turnover,
        new.open, new.high, new.low, new.close, new.base_volume, new.quote_turnover
      );
      return null;
    end
    $$;
    create trigger log_revision after update on market.candles for each row
      when (old.is_closed and
        (old.open, old.high, old.low, old.close, old.base_volume, old.quote_turnover) is distinct from
        (new.open, new.high, new.low, new.close, new.base_volume, new.quote_turnover))
      execute function recorder.log_candle_revision();

    create table recorder.rejected_row (
      digest text primary key,
      operation text not null,
      parameters jsonb not null,
      reason text not null,
      raw text not null,
      raw_sha256 text not null,
      raw_bytes bigint not null,
      first_seen_at timestamptz not null,
      last_seen_at timestamptz not null,
      times_seen bigint not null default 1
    );
    create index rejected_row_last_seen on recorder.rejected_row (last_seen_at);
    create index rejected_row_first_seen on recorder.rejected_row (operation, first_seen_at);

    create view market.restatements as
      select category, symbol, 'candles' as stream, type, interval, from_time, to_time,
        numerator / denominator as factor, detected_at, numerator, denominator, candles
      from recorder.restatement;

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
  `.execute(db)

  const series = {
    ...keyComments,
    type: 'What the candles are made of: market, mark, index or premium.',
    interval: 'Length of the candles, as the service names it.',
  }
  const restated = {
    from_time: 'Opening time of the oldest candle that changed.',
    to_time: 'End of the newest candle that changed.',
    numerator: 'The factor exactly: prices were multiplied by numerator / denominator.',
    denominator: 'See numerator.',
    candles: 'How many candles changed. Their old values are in recorder.candle_revision.',
    detected_at: 'When the recorder noticed.',
  }
  const rejected = {
    operation: 'Operation of the service that responded with it.',
    parameters: 'Parameters of the request.',
    reason: 'Why it could not be understood.',
    raw: 'The start of its text as it was sent, at most 4,096 bytes.',
    raw_sha256: 'SHA-256 of its whole text, in hexadecimal digits.',
    raw_bytes: 'Length of its whole text, in bytes.',
    first_seen_at: 'When it was first received.',
    last_seen_at: 'When it was last received.',
    times_seen: 'How often it was received.',
  }
  await commentOn(db, {
    'recorder.restatement': {
      kind: 'table',
      comment: 'History of a series that the service rewrote as a whole. As an analyst sees it: market.restatements.',
      columns: { id: 'Number of the restatement.', ...series, ...restated },
    },
    'recorder.candle_revision': {
      kind: 'table',
      comment: 'A closed candle that the service later changed, with old and new values.',
      columns: {
        id: 'Number of the revision, ascending in time.',
        ...keyComments,
        type: 'Type of the candle.',
        interval: 'Length of the candle.',
        open_time: 'When the candle opens.',
        revised_at: 'When the changed values were stored.',
        ...changedValues('old'),
        ...changedValues('new'),
        restatement_id: 'The restatement that it is part of; NULL where a candle changed by itself.',
      },
    },
    'recorder.rejected_row': {
      kind: 'table',
      comment:
        'A row of a response that could not be understood, or of which a part was left out. The other rows of the response ' +
        'were stored. At most 5,000 new ones of an operation are kept in an hour.',
      columns: {
        digest: 'SHA-256 of operation, parameters, reason and raw_sha256: the same row is kept once.',
        ...rejected,
      },
    },
    'market.restatements': {
      kind: 'view',
      comment:
        'History that the service rewrote as a whole, as after a split: prices were multiplied by factor and volumes divided by ' +
        'it. The stored candles are the new ones; the old values are in market.candle_revisions.',
      columns: {
        ...series,
        stream: 'What was rewritten: candles.',
        ...restated,
        factor: 'What prices were multiplied by, as a decimal; exactly it is numerator / denominator.',
        candles: 'How many candles changed. Their old values are in market.candle_revisions.',
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
        ...rejected,
      },
    },
  })

  await sql`comment on function recorder.log_candle_revision() is
    'Logs the old and new values of a closed candle that changes.'`.execute(db)
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
