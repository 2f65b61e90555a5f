import { type Kysely, sql } from 'kysely'
import { commentOn, createTables, key } from './relations.js'

const tables = {
  'recorder.restatement': `
    -- History of a series that the service rewrote as a whole. As an analyst sees it: market.restatements.
    id bigint generated always as identity primary key -- Number of the restatement.
    ${key}
    type market.candle_type not null -- What the candles are made of: market, mark, index or premium.
    interval market.candle_interval not null -- Length of the candles, as the service names it.
    from_time timestamptz not null -- Opening time of the oldest candle that changed.
    to_time timestamptz not null check (from_time < to_time) -- End of the newest candle that changed.
    numerator numeric not null check (numerator > 0)
      -- The factor exactly: prices were multiplied by numerator / denominator.
    denominator numeric not null check (denominator > 0) -- See numerator.
    candles bigint not null -- How many candles changed. Their old values are in recorder.candle_revision.
    detected_at timestamptz not null default now() -- When the recorder noticed.`,
  'recorder.candle_revision': `
    -- A closed candle that the service later changed, with old and new values.
    id bigint generated always as identity primary key -- Number of the revision, ascending in time.
    category market.category not null -- Product line of the service: SPOT, MARGIN or one of the futures lines.
    symbol text not null -- Instrument name as the service spells it. The same name may exist in several categories.
    type market.candle_type not null -- Type of the candle.
    interval market.candle_interval not null -- Length of the candle.
    open_time timestamptz not null -- When the candle opens.
    revised_at timestamptz not null -- When the changed values were stored.
    old_open numeric not null -- The old open, in quote coin.
    old_high numeric not null -- The old high, in quote coin.
    old_low numeric not null -- The old low, in quote coin.
    old_close numeric not null -- The old close, in quote coin.
    old_base_volume numeric -- The old volume, in base coin.
    old_quote_turnover numeric -- The old turnover, in quote coin.
    new_open numeric not null -- The new open, in quote coin.
    new_high numeric not null -- The new high, in quote coin.
    new_low numeric not null -- The new low, in quote coin.
    new_close numeric not null -- The new close, in quote coin.
    new_base_volume numeric -- The new volume, in base coin.
    new_quote_turnover numeric -- The new turnover, in quote coin.
    is_restatement boolean not null default false
      -- True if it is part of history that was rewritten as a whole; false where a candle changed by itself.`,
  'recorder.rejected_row': `
    -- A row of a response that could not be understood, or of which a part was left out. The other rows of the
    -- response were stored. At most 1,000 new ones of an operation are kept in an hour. Fills that contradict stored
    -- ones are here, too: at most 10,000 new ones in an hour.
    digest text primary key -- SHA-256 of operation, parameters, reason and raw_sha256: the same row is kept once.
    operation text not null -- Operation of the service that responded with it.
    parameters jsonb not null -- Parameters of the request.
    reason text not null -- Why it could not be understood.
    raw text not null -- The start of its text as it was sent, at most 4,096 bytes.
    raw_sha256 text not null -- SHA-256 of its whole text, in hexadecimal digits.
    raw_bytes bigint not null -- Length of its whole text, in bytes.
    first_seen_at timestamptz not null -- When it was first received.
    last_seen_at timestamptz not null -- When it was last received.
    times_seen bigint not null default 1 -- How often it was received.`,
}

const views = {
  'market.restatements': `
    -- History that the service rewrote as a whole, as after a split: prices were multiplied by factor and volumes
    -- divided by it. The stored candles are the new ones; the old values are in market.candle_revisions.
    ${key}
    stream -- What was rewritten: candles.
    type -- What the candles are made of: market, mark, index or premium.
    interval -- Length of the candles, as the service names it.
    from_time -- Opening time of the oldest candle that changed.
    to_time -- End of the newest candle that changed.
    factor -- What prices were multiplied by, as a decimal; exactly it is numerator / denominator.
    detected_at -- When the recorder noticed.
    numerator -- The factor exactly: prices were multiplied by numerator / denominator.
    denominator -- See numerator.
    candles -- How many candles changed. Their old values are in market.candle_revisions.`,
  'market.candle_revisions': `
    -- Closed candles that the service later changed: one row for each change, with old and new values.
    ${key}
    type -- What the candle is made of: market, mark, index or premium.
    interval -- Length of the candle, as the service names it.
    open_time -- When the candle opens (inclusive), UTC.
    revised_at -- When the changed values were stored.
    old_open -- The old open, in quote coin.
    old_high -- The old high, in quote coin.
    old_low -- The old low, in quote coin.
    old_close -- The old close, in quote coin.
    old_base_volume -- The old volume, in base coin.
    old_quote_turnover -- The old turnover, in quote coin.
    new_open -- The new open, in quote coin.
    new_high -- The new high, in quote coin.
    new_low -- The new low, in quote coin.
    new_close -- The new close, in quote coin.
    new_base_volume -- The new volume, in base coin.
    new_quote_turnover -- The new turnover, in quote coin.
    is_restatement -- True if it is part of history that was rewritten as a whole: see market.restatements.`,
  'market.rejected_rows': `
    -- Rows of responses that could not be understood, or of which a part was left out, with the reason. The other rows
    -- of the response were stored.
    category -- Product line that was asked for; NULL where the operation has none.
    symbol -- Instrument that was asked for; NULL where a response is about all of them. The row itself is in raw.
    operation -- Operation of the service that responded with it.
    parameters -- Parameters of the request.
    reason -- Why it could not be understood.
    raw -- The start of its text as it was sent, at most 4,096 bytes.
    raw_bytes -- Length of its whole text, in bytes.
    raw_sha256 -- SHA-256 of its whole text, in hexadecimal digits.
    first_seen_at -- When it was first received.
    last_seen_at -- When it was last received.
    times_seen -- How often it was received.`,
}

/** Closed candles that changed later, history that was rewritten as a whole, and rows that could not be understood. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTables(db, tables)
  await sql`
    create index restatement_series on recorder.restatement (category, symbol, type, interval);

    create index candle_revision_candle on recorder.candle_revision (category, symbol, type, interval, open_time);
    -- This index serves queries for the revisions of a day, whatever the instrument.
    create index candle_revision_open_time on recorder.candle_revision (open_time);
    create index candle_revision_revised_at on recorder.candle_revision (revised_at);

    create index rejected_row_last_seen on recorder.rejected_row (last_seen_at);
    create index rejected_row_first_seen on recorder.rejected_row (operation, first_seen_at);

    create view market.candle_revisions as
      select category, symbol, type, interval, open_time, revised_at,
        old_open, old_high, old_low, old_close, old_base_volume, old_quote_turnover,
        new_open, new_high, new_low, new_close, new_base_volume, new_quote_turnover, is_restatement
      from recorder.candle_revision;

    create view market.restatements as
      select category, symbol, 'candles' as stream, type, interval, from_time, to_time,
        numerator / denominator as factor, detected_at, numerator, denominator, candles
      from recorder.restatement;

    create view market.rejected_rows as
      select case when parameters ->> 'category' = any (enum_range(null::market.category)::text[])
          then (parameters ->> 'category')::market.category end as category,
        parameters ->> 'symbol' as symbol,
        operation, parameters, reason, raw, raw_bytes, raw_sha256, first_seen_at, last_seen_at, times_seen
      from recorder.rejected_row;
  `.execute(db)
  await commentOn(db, 'view', views)
}
