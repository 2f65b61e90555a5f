import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** The recorder's own books. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Type and interval are '' for streams without them: NULLs in a key are all distinct before PostgreSQL 15.
  const series = sql.raw(`
      stream text not null check (stream <> ''),
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type text not null default '' check (type = '' or type::market.candle_type is not null),
      interval text not null default '' check (interval = '' or interval::market.candle_interval is not null)`)
  await sql`
    create table recorder.coverage (
      ${series},
      ranges tstzmultirange not null,
      updated_at timestamptz not null default now(),
      primary key (stream, category, symbol, type, interval)
    );

    create table recorder.gap (
      id bigint generated always as identity primary key,
      ${series},
      range tstzrange not null check (not isempty(range) and not lower_inf(range) and not upper_inf(range)),
      reason text not null check (reason <> ''),
      state text not null default 'open' check (state in ('open', 'repaired', 'lost')),
      detected_at timestamptz not null,
      repaired_at timestamptz,
      lost_at timestamptz,
      unique (stream, category, symbol, type, interval, range),
      check ((state = 'repaired') = (repaired_at is not null)),
      check ((state = 'lost') = (lost_at is not null))
    );
    create index gap_open on recorder.gap (detected_at) where state = 'open';

    create table recorder.candle_revision (
      id bigint generated always as identity primary key,
      category market.category not null,
      symbol text not null,
      type market.candle_type not null,
      interval market.candle_interval not null,
      open_time timestamptz not null,
      revised_at timestamptz not null,
      old_open numeric not null, old_high numeric not null, old_low numeric not null, old_close numeric not null,
      old_base_volume numeric not null, old_quote_turnover numeric not null,
      new_open numeric not null, new_high numeric not null, new_low numeric not null, new_close numeric not null,
      new_base_volume numeric not null, new_quote_turnover numeric not null
    );
    create index candle_revision_candle on recorder.candle_revision (category, symbol, type, interval, open_time);

    create table recorder.rejected_row (
      digest text primary key,
      operation text not null,
      parameters jsonb not null,
      reason text not null,
      raw text not null,
      first_seen_at timestamptz not null,
      last_seen_at timestamptz not null,
      times_seen bigint not null default 1
    );
    create index rejected_row_last_seen on recorder.rejected_row (last_seen_at);

    -- A trigger and not the writer's statement: only here are the old values those that are really replaced, whoever writes.
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
    comment on function recorder.log_candle_revision() is 'Logs the old and new values of a closed candle that changes.';
    create trigger log_revision after update on market.candles for each row
      when (old.is_closed and
        (old.open, old.high, old.low, old.close, old.base_volume, old.quote_turnover) is distinct from
        (new.open, new.high, new.low, new.close, new.base_volume, new.quote_turnover))
      execute function recorder.log_candle_revision();
  `.execute(db)

  const seriesComments = {
    stream: 'What is recorded, named as the table that holds it.',
    ...keyComments,
    type: 'Candles: market, mark, index or premium; empty otherwise.',
    interval: 'Candles: length as the service names it; empty otherwise.',
  }
  const values = { open: 'open', high: 'high', low: 'low', close: 'close' }
  const prices = (when: 'old' | 'new') =>
    Object.fromEntries([
      ...Object.keys(values).map((name) => [`${when}_${name}`, `The ${when} ${name}, in quote coin.`]),
      [`${when}_base_volume`, `The ${when} volume, in base coin.`],
      [`${when}_quote_turnover`, `The ${when} turnover, in quote coin.`],
    ]) as Record<string, string>
  await commentOn(db, {
    'recorder.coverage': {
      kind: 'table',
      comment: 'The ranges of time of a series that are proven to be stored in full. As rows: market.coverage.',
      columns: {
        ...seriesComments,
        ranges: 'Proven ranges, half-open.',
        updated_at: 'When a range was last added.',
      },
    },
    'recorder.gap': {
      kind: 'table',
      comment: 'A known gap in what was recorded. As an analyst sees it: market.gaps.',
      columns: {
        id: 'Number of the gap.',
        ...seriesComments,
        range: "The gap, half-open, by the service's time.",
        reason: 'Why it is there.',
        state: 'open (may be repaired), repaired, or lost (the service no longer has it).',
        detected_at: 'When it was found.',
        repaired_at: 'When it was filled; NULL unless repaired.',
        lost_at: 'When it was known to be beyond repair; NULL unless lost.',
      },
    },
    'recorder.candle_revision': {
      kind: 'table',
      comment: 'A closed candle that the service later changed: its old and new values.',
      columns: {
        id: 'Number of the revision, ascending in time.',
        ...keyComments,
        type: 'Type of the candle.',
        interval: 'Length of the candle.',
        open_time: 'When the candle opens.',
        revised_at: 'When the changed values were stored.',
        ...prices('old'),
        ...prices('new'),
      },
    },
    'recorder.rejected_row': {
      kind: 'table',
      comment: 'A row of a response that could not be understood. The other rows of the response were stored.',
      columns: {
        digest: 'SHA-256 of operation, parameters, reason and raw: the same row is kept once.',
        operation: 'Operation of the service that answered with it.',
        parameters: 'Parameters of the request.',
        reason: 'Why it could not be understood.',
        raw: 'Its text as it was sent.',
        first_seen_at: 'When it was first received.',
        last_seen_at: 'When it was last received.',
        times_seen: 'How often it was received.',
      },
    },
    // The migrator's own tables, so that everything in the schema explains itself.
    'recorder.migration': {
      kind: 'table',
      comment: 'Migrations that have been applied to this database.',
      columns: { name: 'Name of the migration.', timestamp: 'When it was applied (ISO 8601, UTC).' },
    },
    'recorder.migration_lock': {
      kind: 'table',
      comment: 'Taken while migrations run, so that two processes do not run them at once.',
      columns: { id: 'Always migration_lock.', is_locked: 'Unused on PostgreSQL: an advisory lock is taken instead.' },
    },
  })
}
