import { type Kysely, sql } from 'kysely'
import { commentOn, createTables } from './relations.js'
import { describeMigrations } from './0001_instruments.js'
import { describeMarketData } from './0002_market_data.js'
import { correctionTables, createRevisionsView } from './0003_corrections.js'
import { ledgerTables, settledCheck, verdictCheck } from './0004_ledger.js'
import { finalRollups } from './0006_recorders.js'
import { archivedDays, indexChangedDays } from './0007_archive.js'
import { createRollupViews } from './0008_analysis.js'

/**
 * Brings a database that was made before claims had evidence and archives were Iceberg tables alone to the tables of the
 * files before this one. Changes nothing in others. A change of those files must be made here, too.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql`select from pg_attribute
    where attrelid = 'recorder.ledger'::regclass and attname = 'judged_at' and not attisdropped`.execute(db)
  if (rows.length === 0) return
  // A page of fills judges anew which of its minutes the candles contradict.
  await sql`
    delete from recorder.ledger where verdict = 'audited' or (verdict = 'unsettled' and isempty(ranges));
    alter table recorder.ledger
      drop constraint ledger_verdict_check,
      drop constraint ledger_check1,
      add constraint ledger_verdict_check ${sql.raw(verdictCheck)},
      drop column judged_at,
      add column asked_since timestamptz,
      add column rows_before bigint not null default 0;
    update recorder.ledger set asked_since = upper(ranges), noted_at = upper(ranges), settled_at = upper(ranges)
      where verdict = 'unsettled';
    alter table recorder.ledger add constraint ledger_check1 ${sql.raw(settledCheck)};
    create index ledger_evidence on recorder.ledger (noted_at) where verdict in ('contradicted', 'disputed')`.execute(
    db,
  )
  await describeMigrations(db)
  await commentOn(db, 'table', ledgerTables)

  await createTables(db, finalRollups)
  await sql`
    insert into recorder.final_rollups (before)
      select rollups_final_before from recorder.service where rollups_final_before is not null;
    alter table recorder.service drop column rollups_final_before`.execute(db)

  await describeMarketData(db)
  await createRollupViews(db)
  await dropRollups(db)

  await flagRevisions(db)
  await keepRemovedDays(db)
}

/** Notes of each revision whether it is part of a restatement, and no longer of which. */
async function flagRevisions(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.candle_revision add column is_restatement boolean not null default false;
    update recorder.candle_revision set is_restatement = true where restatement_id is not null`.execute(db)
  await createRevisionsView(db)
  await sql`
    alter table recorder.candle_revision drop column restatement_id;
    do $$
    begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant update (is_restatement) on recorder.candle_revision to recorder_writer;
      end if;
    end
    $$`.execute(db)
  await commentOn(db, 'table', correctionTables)
}

/** Drops continuous aggregates, because they do not count their minutes. The next start makes and fills them anew. */
async function dropRollups(db: Kysely<unknown>): Promise<void> {
  for (const name of ['ohlcv_1d', 'ohlcv_4h', 'ohlcv_1h', 'ohlcv_15m', 'ohlcv_5m'])
    await sql`drop materialized view if exists ${sql.table(`recorder.${name}`)}`.execute(db)
}

/**
 * Makes final what an archive of the earlier format has of days whose rows have left. Days that are still here are
 * written to the new archive.
 */
async function keepRemovedDays(db: Kysely<unknown>): Promise<void> {
  await sql`
    create temporary table earlier_day on commit drop as
      select table_name, day, archived_at, removed_at from recorder.archived_day where removed_at is not null;
    drop table recorder.archived_day`.execute(db)
  await createTables(db, archivedDays)
  await indexChangedDays(db)
  // A candle belongs to the day in which it opens. A range ends with a candle, so candles open at whole lengths before.
  await sql`
    create temporary table final_part on commit drop as
      select k.stream, k.category, k.symbol, k.type, k.interval, range_agg(tstzrange(
        case when lower(r) >= since then lower(r) when length is null then since
          else upper(r) - length * floor(extract(epoch from upper(r) - since) / extract(epoch from length))::float8 end,
        case when upper(r) <= until then upper(r) when length is null then until
          else upper(r) - length * floor(extract(epoch from upper(r) - until) / extract(epoch from length))::float8 end
      )) as ranges
      from earlier_day d
      cross join lateral (
        select d.day::timestamp at time zone 'UTC' as since, (d.day + 1)::timestamp at time zone 'UTC' as until) as u
      join recorder.ledger k on k.stream = d.table_name and k.verdict = 'recorded' and k.ranges && tstzrange(since, until)
      cross join lateral unnest(k.ranges) as r
      cross join lateral (
        select case when k.interval <> '' then market.interval_length(k.interval::market.candle_interval) end as length) l
      where r && tstzrange(since, until)
      group by 1, 2, 3, 4, 5;
    update recorder.ledger k set ranges = k.ranges - f.ranges from final_part f
    where (k.stream, k.category, k.symbol, k.type, k.interval) = (f.stream, f.category, f.symbol, f.type, f.interval)
      and k.verdict in ('recorded', 'silent', 'no trade') and k.ranges && f.ranges;
    delete from recorder.ledger
    where verdict in ('recorded', 'silent', 'no trade') and part > '-infinity' and isempty(ranges);
    insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges, noted_at)
      select stream, category, symbol, type, interval, 'final', ranges, upper(ranges) from final_part;
    insert into recorder.archived_day (table_name, day, archived_at, removed_at)
      select table_name, day, archived_at, removed_at from earlier_day;
    delete from iceberg.iceberg_tables`.execute(db)
}
