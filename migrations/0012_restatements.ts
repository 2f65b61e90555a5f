import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** The past that changes: when it was looked at again, and what was rewritten as a whole. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.review (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      type market.candle_type not null,
      interval market.candle_interval not null,
      reviewed_at timestamptz not null,
      next_to timestamptz not null,
      primary key (category, symbol, type, interval)
    );

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

    alter table recorder.candle_revision add column restatement_id bigint references recorder.restatement (id);
    create index candle_revision_restatement on recorder.candle_revision (restatement_id) where restatement_id is not null;
    create index candle_revision_revised_at on recorder.candle_revision (revised_at);

    create view market.restatements as
      select category, symbol, 'candles' as stream, type, interval, from_time, to_time,
        numerator / denominator as factor, detected_at, numerator, denominator, candles
      from recorder.restatement;

    do $$ begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant update (restatement_id) on recorder.candle_revision to recorder_writer;
      end if;
    end $$;
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
  await commentOn(db, {
    'recorder.review': {
      kind: 'table',
      comment: 'When closed candles of a series were last looked at again.',
      columns: {
        ...series,
        reviewed_at: 'When a stretch of it was last read again.',
        next_to: 'End of the stretch that is next.',
      },
    },
    'recorder.restatement': {
      kind: 'table',
      comment: 'History of a series that the service rewrote as a whole. As an analyst sees it: market.restatements.',
      columns: { id: 'Number of the restatement.', ...series, ...restated },
    },
    'recorder.candle_revision': {
      kind: 'table',
      comment: 'A closed candle that the service later changed, with old and new values.',
      columns: { restatement_id: 'The restatement that it is part of; NULL where a candle changed by itself.' },
    },
    'market.restatements': {
      kind: 'view',
      comment:
        'History that the service rewrote as a whole, as after a split: prices were multiplied by factor and volumes divided by ' +
        'it. The stored candles are the new ones.',
      columns: {
        ...series,
        stream: 'What was rewritten: candles.',
        ...restated,
        factor: 'What prices were multiplied by, as a decimal; exactly it is numerator / denominator.',
      },
    },
  })
}
