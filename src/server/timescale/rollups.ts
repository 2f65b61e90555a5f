import { type Kysely, sql } from 'kysely'
import { normalized, type TimeRange } from '../../market/timeRange.js'
import { dayMs, hourMs, minuteMs, type TimeMs } from '../../market/values.js'
import { systemClock } from '../../runtime/clock.js'
import type { Database } from '../../db/schema.js'
import { detectServer } from './server.js'

/** A rollup: `market.<name>`, which on TimescaleDB Community reads the continuous aggregate `recorder.<name>`. */
export interface Rollup {
  readonly name: string
  readonly widthMs: number
  /** Relation that the rollup aggregates: candles, or the next shorter rollup. */
  readonly source: string
  /** How often the server brings it up to date. */
  readonly refreshEveryMs: number
}

/** Each rollup aggregates a shorter one, so that a refresh of the longer rollups reads few rows. */
export const rollups: readonly Rollup[] = [
  { name: 'ohlcv_5m', widthMs: 5 * minuteMs, source: 'market.candles', refreshEveryMs: 5 * minuteMs },
  { name: 'ohlcv_15m', widthMs: 15 * minuteMs, source: 'recorder.ohlcv_5m', refreshEveryMs: 15 * minuteMs },
  { name: 'ohlcv_1h', widthMs: hourMs, source: 'recorder.ohlcv_15m', refreshEveryMs: 30 * minuteMs },
  { name: 'ohlcv_4h', widthMs: 4 * hourMs, source: 'recorder.ohlcv_1h', refreshEveryMs: hourMs },
  { name: 'ohlcv_1d', widthMs: 24 * hourMs, source: 'recorder.ohlcv_4h', refreshEveryMs: hourMs },
]

/**
 * Age in milliseconds. Newer buckets are always computed from the source, because recent candles may still be missing.
 * A bucket stored without those candles would stay wrong until its next refresh.
 */
export const liveMs = 10 * minuteMs

/**
 * Number of buckets that one transaction of a refresh rolls up: at least a day. The server's default is ten buckets.
 * For 5m candles it reads all rows of a chunk once per 50 minutes. That takes 3 to 5 times as long.
 */
export function bucketsPerBatch({ widthMs }: Rollup): number {
  return Math.max(10, dayMs / widthMs)
}

export async function createRollup(db: Kysely<Database>, { name, widthMs, source }: Rollup): Promise<void> {
  const only = source === 'market.candles' ? sql`where type = 'market' and interval = '1m' and is_closed` : sql``
  await sql`
    create materialized view ${sql.table(`recorder.${name}`)} with (
      timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false
    ) as
      select category, symbol, public.time_bucket(${interval(widthMs)}, open_time) as open_time,
        public.first(open, open_time) as open, max(high) as high, min(low) as low, public.last(close, open_time) as close,
        sum(base_volume) as base_volume, sum(quote_turnover) as quote_turnover
      from ${sql.table(source)} ${only}
      group by 1, 2, 3
    with no data`.execute(db)
  await sql`create index on ${sql.table(`recorder.${name}`)} (category, symbol, open_time desc)`.execute(db)
  await commentOnRollup(db, name)
}

/** The columns mean what those of the analysts' view mean. */
async function commentOnRollup(db: Kysely<Database>, name: string): Promise<void> {
  const { rows } = await sql<{ column: string; comment: string }>`
    select attname as "column", col_description(attrelid, attnum) as comment from pg_attribute
    where attrelid = ${`market.${name}`}::regclass and attnum > 0`.execute(db)
  const view = sql.table(`recorder.${name}`)
  await sql`comment on view ${view} is ${sql.lit(`What market.${name} reads. Kept by TimescaleDB.`)}`.execute(db)
  for (const { column, comment } of rows) {
    await sql`comment on column ${view}.${sql.ref(column)} is ${sql.lit(comment)}`.execute(db)
  }
}

/** Rolls up all candles that are kept. Cannot run in a transaction. */
export async function fillRollup(db: Kysely<Database>, rollup: Rollup, now: TimeMs): Promise<void> {
  await refresh(db, rollup, await finalBefore(db), lastWhole(rollup, now))
}

/**
 * Notes that candles from before this time are being removed for their age. TimescaleDB takes a removed candle for a change: a
 * refresh would remove its rollups, too. They are final from now on.
 */
export async function noteRemoval(db: Kysely<Database>, before: Date): Promise<void> {
  await db
    .updateTable('recorder.service')
    .set({ rollups_final_before: sql`greatest(rollups_final_before, ${before}::timestamptz)` })
    .execute()
}

/** The time before which candles are noted to be removed for their age; null where none is. */
export async function removedBefore(db: Kysely<Database>): Promise<TimeMs | null> {
  const row = await db.selectFrom('recorder.service').select('rollups_final_before as before').executeTakeFirst()
  return row?.before ?? null
}

/**
 * The time before which rollups outlive their candles; null where no candle was removed for its age. The server removes candles
 * by a schedule of its own, also while no recorder runs that would note it.
 */
async function finalBefore(db: Kysely<Database>): Promise<TimeMs | null> {
  const { rows } = await sql<{ before: TimeMs | null }>`
    select greatest((select rollups_final_before from recorder.service), (
      select max(now() - (config ->> 'drop_after')::interval) from timescaledb_information.jobs
      where proc_name = 'policy_retention' and hypertable_schema = 'market' and hypertable_name = 'candles'
    )) as before`.execute(db)
  return rows[0]?.before ?? null
}

/** Lets the analysts' view read the continuous aggregate. Whoever uses the view keeps using it. */
export async function readRollup(db: Kysely<Database>, { name }: Rollup): Promise<void> {
  await sql`
    create or replace view ${sql.table(`market.${name}`)} as
      select category, symbol, open_time, open, high, low, close, base_volume, quote_turnover
      from ${sql.table(`recorder.${name}`)}`.execute(db)
  // A view reads with its owner's rights, but not where the planner merges a continuous aggregate into a union: there it asks for
  // those of the caller. Schema recorder stays closed to them.
  await sql`
    do $$
    begin
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant select on ${sql.table(`recorder.${name}`)} to market_reader;
      end if;
    end
    $$`.execute(db)
}

/**
 * Brings the rollups up to date over the ranges of candles that were written, such as those of a backfill; elsewhere that is
 * left to the server's own schedule. Rollups that outlive their candles stay as they are. Does nothing where rollups are plain
 * views, or belong to someone else: their schedule finds the change within three hours. Cannot run in a transaction.
 */
export async function refreshRollups(
  db: Kysely<Database>,
  ranges: readonly TimeRange[],
  now: TimeMs = systemClock.now(),
): Promise<void> {
  if (ranges.length === 0 || (await detectServer(db)).kind !== 'timescale-community') return
  const { rows: ours } = await sql<{ name: string }>`
    select view_name as name from timescaledb_information.continuous_aggregates
    where view_schema = 'recorder' and pg_has_role(view_owner, 'usage')`.execute(db)
  const names = new Set(ours.map(({ name }) => name))
  const final = await finalBefore(db)
  const kept =
    final === null
      ? ranges
      : ranges.flatMap(({ from, to }) => (to > final ? [{ from: Math.max(from, final), to }] : []))
  for (const rollup of rollups.filter(({ name }) => names.has(name))) {
    for (const { from, to } of wholeBuckets(kept, rollup.widthMs, lastWhole(rollup, now))) {
      await refresh(db, rollup, from, to)
    }
  }
}

/** The ranges widened to whole buckets, cut at `end`, and joined where they touch. Ascending. */
export function wholeBuckets(ranges: readonly TimeRange[], widthMs: number, end: TimeMs): TimeRange[] {
  return normalized(
    ranges.map(({ from, to }) => ({
      from: Math.floor(from / widthMs) * widthMs,
      to: Math.min(Math.ceil(to / widthMs) * widthMs, end),
    })),
  )
}

function lastWhole({ widthMs }: Rollup, now: TimeMs): TimeMs {
  return Math.floor((now - liveMs) / widthMs) * widthMs
}

async function refresh(db: Kysely<Database>, rollup: Rollup, from: TimeMs | null, to: TimeMs): Promise<void> {
  if (from !== null && from >= to) return
  const start = from === null ? null : new Date(from)
  await sql`
    call public.refresh_continuous_aggregate(${`recorder.${rollup.name}`}::regclass,
      ${start}::timestamptz, ${new Date(to)}::timestamptz,
      options => jsonb_build_object('buckets_per_batch', ${bucketsPerBatch(rollup)}::int))`.execute(db)
}

/** A literal: definitions of views take no parameters. */
function interval(ms: number) {
  return sql`${sql.lit(`${ms / minuteMs} minutes`)}::interval`
}
