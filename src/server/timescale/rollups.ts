import { type Kysely, sql } from 'kysely'
import { normalized, type TimeRange } from '../../market/timeRange.js'
import { type DatabaseMs, dayMs, hourMs, minuteMs, type ServiceMs, serviceMs } from '../../market/values.js'
import { completenessOf, wholeSumOf } from '../../db/columns.js'
import { callFunction, databaseNow } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { lockNames, withSessionLock } from '../../db/locks.js'
import { traitsOf } from '../../db/databaseError.js'
import { type Change, type CurrentState, finalBefore, firstRun, type Policy, policyKey } from './currentState.js'
import { detectServer } from './server.js'

/** A rollup. On TimescaleDB Community, the view `market.<name>` reads the continuous aggregate `recorder.<name>`. */
interface Rollup {
  readonly name: string
  readonly widthMs: number
  /** Relation that the rollup aggregates: candles, or the next shorter rollup. */
  readonly source: string
  /** Interval at which the server refreshes the rollup. */
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
 * Age in milliseconds up to which buckets are computed from the source, because candles may still be missing. A bucket
 * stored without them would stay wrong until its next refresh.
 */
const liveMs = 10 * minuteMs

function readsCandles({ source }: Rollup): boolean {
  return source === 'market.candles'
}

/**
 * Returns the number of buckets that one transaction of a refresh rolls up: a day of them, at least ten. The server's
 * default is ten. For 5m candles, it would then read each row of a chunk once per 50 minutes. That takes 3 to 5 times
 * as long.
 */
export function bucketsPerBatch({ widthMs }: Rollup): number {
  return Math.max(10, dayMs / widthMs)
}

/** Returns the changes that a rollup needs. */
export function rollupChanges(
  rollup: Rollup,
  { rollups: existing, rollupViews, policies, rollupsFinalBefore }: CurrentState,
  now: DatabaseMs,
): Change[] {
  const { name, refreshEveryMs } = rollup
  const changes: Change[] = []
  if (!existing.has(name)) {
    changes.push({
      text: `create the continuous aggregate recorder.${name}`,
      apply: (db) => createRollup(db, rollup),
    })
  }
  const policy = policies.get(policyKey('refresh', name))
  const afterHours = refreshHours(rollup, { rollupsFinalBefore, policy, now })
  if (policy === undefined) {
    // Adds the schedule last, because its presence also shows that the filling is complete. An interrupted filling
    // would otherwise leave old buckets missing for ever.
    changes.push({
      text: `fill recorder.${name} and refresh it every ${refreshEveryMs / 60_000} minutes`,
      async apply(db) {
        await fillRollup(db, rollup)
        await addRefresh(db, rollup, afterHours)
      },
    })
  } else if (
    policy.everyMs !== refreshEveryMs ||
    !policy.hasPlace ||
    policy.afterHours !== afterHours ||
    policy.bucketsPerBatch !== bucketsPerBatch(rollup)
  ) {
    changes.push({
      text: `refresh recorder.${name} every ${refreshEveryMs / 60_000} minutes`,
      async apply(db) {
        await sql`
          select public.remove_continuous_aggregate_policy(${`recorder.${name}`}::regclass, if_exists => true)
        `.execute(db)
        await addRefresh(db, rollup, afterHours)
      },
    })
  }
  if (!rollupViews.has(name)) {
    changes.push({ text: `let market.${name} read recorder.${name}`, apply: (db) => readRollup(db, rollup) })
  }
  return changes
}

/**
 * Returns how many hours back the schedule of a rollup looks for changes; null for all time. A rollup of candles must
 * not look where candles were removed, because TimescaleDB would remove their rollups too. It looks at all that stay.
 * Other rollups read rollups, which stay.
 */
function refreshHours(
  rollup: Rollup,
  known: {
    readonly rollupsFinalBefore: ServiceMs | null
    readonly policy: Policy | undefined
    readonly now: DatabaseMs
  },
): number | null {
  const { rollupsFinalBefore, policy, now } = known
  if (!readsCandles(rollup) || rollupsFinalBefore === null) return null
  const bound = Math.floor((now - rollupsFinalBefore) / hourMs)
  // The bound moves with time, and the recorder moves the schedule each hour.
  const isNear = policy?.afterHours != null && policy.afterHours <= bound && policy.afterHours > bound - 24
  return isNear ? policy.afterHours : bound
}

/**
 * Lets the schedule look at all candles that were not dropped. It counts from the present, so this must be done each
 * hour. Does nothing while another session refreshes rollups or drops candles.
 */
export async function boundRollups(db: Kysely<Database>): Promise<void> {
  if ((await detectServer(db)).kind !== 'timescale-community') return
  await unlessBusy(db, async (connection) => callFunction(connection, 'recorder.bound_rollups'))
}

async function addRefresh(db: Kysely<Database>, rollup: Rollup, afterHours: number | null): Promise<void> {
  await sql`
    select public.add_continuous_aggregate_policy(${`recorder.${rollup.name}`}::regclass,
      start_offset => make_interval(hours => ${afterHours}::int), end_offset => ${interval(liveMs)},
      schedule_interval => ${interval(rollup.refreshEveryMs)}, buckets_per_batch => ${bucketsPerBatch(rollup)}::int,
      initial_start => ${firstRun('refresh', rollups.indexOf(rollup), rollup.refreshEveryMs)})
  `.execute(db)
}

async function createRollup(db: Kysely<Database>, rollup: Rollup): Promise<void> {
  const { name, widthMs, source } = rollup
  const only = readsCandles(rollup) ? sql`where type = 'market' and interval = '1m' and is_closed` : sql``
  await sql`
    create materialized view ${sql.table(`recorder.${name}`)} with (
      timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false
    ) as
      select category, symbol, public.time_bucket(${interval(widthMs)}, open_time) as open_time,
        public.first(open, open_time) as open, max(high) as high, min(low) as low, public.last(close, open_time) as close,
        ${wholeSumOf('base_volume')} as base_volume, ${wholeSumOf('quote_turnover')} as quote_turnover,
        ${readsCandles(rollup) ? sql`count(*)` : sql`sum(minutes)::bigint`} as minutes
      from ${sql.table(source)} ${only}
      group by 1, 2, 3
    with no data`.execute(db)
  await sql`create index on ${sql.table(`recorder.${name}`)} (category, symbol, open_time desc)`.execute(db)
  await commentOnRollup(db, name)
}

/** Copies the comments of the analysts' view, because the columns mean the same. */
async function commentOnRollup(db: Kysely<Database>, name: string): Promise<void> {
  const { rows } = await sql<{ column: string; comment: string }>`
    select attname as "column", col_description(attrelid, attnum) as comment from pg_attribute
    where attrelid = ${`market.${name}`}::regclass and attnum between 1 and 10`.execute(db)
  const view = sql.table(`recorder.${name}`)
  await sql`comment on view ${view} is ${sql.lit(`What market.${name} reads. Kept by TimescaleDB.`)}`.execute(db)
  for (const { column, comment } of rows) {
    await sql`comment on column ${view}.${sql.ref(column)} is ${sql.lit(comment)}`.execute(db)
  }
}

/** Rolls up all stored candles. Cannot run in a transaction. */
async function fillRollup(db: Kysely<Database>, rollup: Rollup): Promise<void> {
  await refresh(db, rollup, await finalBefore(db), lastWhole(rollup, await databaseNow(db)))
}

/**
 * Rolls up what is not rolled up yet of candles that are about to be dropped. Only the first rollup reads candles.
 * Leaves a rollup of another owner to its schedule. Cannot run in a transaction.
 */
export async function refreshBeforeDrop(db: Kysely<Database>, before: ServiceMs): Promise<void> {
  for (const rollup of await ownRollups(db)) {
    if (!readsCandles(rollup)) continue
    const whole = (at: ServiceMs) => serviceMs(Math.floor(at / rollup.widthMs) * rollup.widthMs)
    const final = await finalBefore(db)
    await refresh(db, rollup, final === null ? null : whole(final), whole(before))
  }
}

/** Makes the analysts' view read the continuous aggregate. Queries of the view need not change. */
async function readRollup(db: Kysely<Database>, { name, widthMs }: Rollup): Promise<void> {
  await sql`
    create or replace view ${sql.table(`market.${name}`)} as
      select r.category, r.symbol, r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover, r.minutes,
        ${completenessOf(widthMs)}
      from ${sql.table(`recorder.${name}`)} r`.execute(db)
  // A view reads with its owner's rights. But if the planner merges a continuous aggregate into a union, it checks the
  // caller's rights. Schema recorder stays closed to them.
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
 * Refreshes rollups over ranges of written candles, such as those of a backfill. The server's schedule refreshes all
 * other ranges. Rollups that outlive their candles stay as they are. Does nothing if rollups are plain views. Rollups
 * of another owner are left to their schedule, within three hours. Resolves to false, perhaps half done, while another
 * session refreshes rollups or drops candles. Cannot run in a transaction.
 */
export async function refreshRollups(db: Kysely<Database>, ranges: readonly TimeRange[]): Promise<boolean> {
  if (ranges.length === 0 || (await detectServer(db)).kind !== 'timescale-community') return true
  const work = async (connection: Kysely<Database>) => {
    const now = await databaseNow(connection)
    const final = (await finalBefore(connection)) ?? serviceMs(Number.NEGATIVE_INFINITY)
    for (const rollup of await ownRollups(connection)) {
      for (const { from, to } of refreshRanges(rollup, ranges, { final, end: lastWhole(rollup, now) }))
        await refresh(connection, rollup, from, to)
    }
  }
  return unlessBusy(db, work)
}

/** Runs `work` under the lock of rollups. Resolves to false if another session holds it, or a lock that `work` needs. */
async function unlessBusy(db: Kysely<Database>, work: (db: Kysely<Database>) => Promise<unknown>): Promise<boolean> {
  const busy = new Error('another session refreshes rollups or drops candles')
  try {
    await withSessionLock(db, lockNames.rollups, work, { refusal: () => busy })
    return true
  } catch (error) {
    if (error === busy || traitsOf(error).isLocked) return false
    throw error
  }
}

/** Reads which rollups exist whose owner this login may act for, the finest first. */
async function ownRollups(db: Kysely<Database>): Promise<Rollup[]> {
  const { rows } = await sql<{ name: string }>`
    select view_name as name from timescaledb_information.continuous_aggregates
    where view_schema = 'recorder' and pg_has_role(view_owner, 'usage')`.execute(db)
  const names = new Set(rows.map(({ name }) => name))
  return rollups.filter(({ name }) => names.has(name))
}

/**
 * Returns what to refresh of a rollup, so that all rollups agree on the days of these ranges. A longer rollup reads a
 * shorter one, which must be fresh for the whole of each bucket. Where candles were dropped, nothing reads candles.
 *
 * @param bounds `final`: candles before this time were dropped. `end`: the last whole bucket ends here.
 */
export function refreshRanges(
  rollup: Rollup,
  ranges: readonly TimeRange[],
  { final, end }: { readonly final: ServiceMs; readonly end: ServiceMs },
): TimeRange[] {
  const from = readsCandles(rollup) ? Math.ceil(final / rollup.widthMs) * rollup.widthMs : Number.NEGATIVE_INFINITY
  const days = ranges
    .filter(({ to }) => to > final)
    .map((range) => ({
      from: serviceMs(Math.max(Math.floor(range.from / dayMs) * dayMs, from)),
      to: serviceMs(Math.min(Math.ceil(range.to / dayMs) * dayMs, end)),
    }))
  return normalized(days)
}

/** Returns the end of the last bucket to store. The schedule counts by the database's clock, too. */
function lastWhole({ widthMs }: Rollup, now: DatabaseMs): ServiceMs {
  return serviceMs(Math.floor((now - liveMs) / widthMs) * widthMs)
}

async function refresh(db: Kysely<Database>, rollup: Rollup, from: ServiceMs | null, to: ServiceMs): Promise<void> {
  if (from !== null && from >= to) return
  const start = from === null ? null : new Date(from)
  await sql`
    call public.refresh_continuous_aggregate(${`recorder.${rollup.name}`}::regclass,
      ${start}::timestamptz, ${new Date(to)}::timestamptz,
      options => jsonb_build_object('buckets_per_batch', ${bucketsPerBatch(rollup)}::int))`.execute(db)
}

/** Returns an interval as a literal, because view definitions take no parameters. */
function interval(ms: number) {
  return sql`${sql.lit(`${ms / minuteMs} minutes`)}::interval`
}
