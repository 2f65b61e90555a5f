import { type Kysely, sql } from 'kysely'
import { commentOn, extraComment, keyComments } from './comments.js'

const receivedAt = 'When the recorder received it, by its own clock.'

/** What moves futures beside their trades. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // NaN sorts above Infinity, so one comparison on each side keeps both out.
  const finite = (column: string) => sql.raw(`${column} > '-Infinity' and ${column} < 'Infinity'`)
  await sql`
    create table market.funding_forecasts (
      category market.category not null,
      symbol text not null check (symbol <> ''),
      ts timestamptz not null,
      funding_rate numeric not null check (${finite('funding_rate')}),
      interval_hours integer,
      next_update timestamptz,
      min_rate numeric,
      max_rate numeric,
      received_at timestamptz not null,
      extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object'),
      primary key (category, symbol, ts)
    );

    -- Roles may be missing, where the login may not create them.
    do $$
    begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant select, insert, delete on market.funding_forecasts to recorder_writer;
      end if;
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant select on market.funding_forecasts to market_reader;
      end if;
    end
    $$`.execute(db)
  await commentOn(db, {
    'market.funding_forecasts': {
      kind: 'table',
      comment: 'The funding rate of the next settlement, as it forms, at a moment. Source: current-fund-rate.',
      columns: {
        ...keyComments,
        ts: 'Time of the response, by the service.',
        funding_rate:
          'Rate that would be settled now, as a fraction of the value of a position. Above 0, longs pay shorts.',
        interval_hours: 'Hours from one settlement to the next; NULL where the service does not say.',
        next_update: 'When it is settled next; NULL where the service does not say.',
        min_rate: 'Lowest rate that can be settled, as a fraction; NULL where the service does not say.',
        max_rate: 'Highest rate that can be settled, as a fraction; NULL where the service does not say.',
        received_at: receivedAt,
        extra: extraComment,
      },
    },
  })
}
