import { type Kysely, sql } from 'kysely'
import { type MarketTable, marketTables, type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import { addMs, dayMs, serviceMs, type ServiceMs } from '../../market/values.js'
import { databaseNow } from '../../db/database.js'
import { instant } from '../../db/columns.js'
import type { Database, GapState } from '../../db/schema.js'

interface GapCount {
  readonly stream: StreamName
  readonly state: GapState
  readonly reason: string
  readonly count: number
}

export interface StoreOverview {
  /** Size of the database on disk. */
  readonly bytes: number
  /** Number of known gaps by kind, the most frequent kind first. At most a hundred kinds are listed. */
  readonly gaps: readonly GapCount[]
}

/** Reads figures about the whole database. They are cheap to compute. */
export async function storeOverview(db: Kysely<Database>): Promise<StoreOverview> {
  const [size, gaps] = await Promise.all([
    db
      .selectNoFrom(({ fn }) => fn<number>('pg_database_size', [fn('current_database')]).as('bytes'))
      .executeTakeFirstOrThrow(),
    db
      .selectFrom('recorder_page.gap')
      .select(['stream', 'state', 'reason'])
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .groupBy(['stream', 'state', 'reason'])
      .orderBy('count', 'desc')
      .orderBy('stream')
      .orderBy('state')
      .orderBy('reason')
      .limit(100)
      .execute(),
  ])
  return { ...size, gaps }
}

/**
 * Reads the newest time of the market that the database knows of: the end of what is proven to be recorded. It is
 * null before anything is. It shows where to look back from. It is no clock, because recording may have ended long ago.
 */
export async function newestKnown(db: Kysely<Database>): Promise<ServiceMs | null> {
  const { rows } = await sql<{ end: ServiceMs | null }>`
    select max(upper(ranges)) as "end" from recorder_page.coverage`.execute(db)
  return rows[0]?.end ?? null
}

/** Reads the newest known time. Before anything is known, only the database's clock tells how far back to search. */
export async function newestKnownOrNow(db: Kysely<Database>): Promise<ServiceMs> {
  return (await newestKnown(db)) ?? serviceMs(await databaseNow(db))
}

/** Newest rows are searched no further back than this. A stream without rows since then is silent. */
const lookbackMs = 2 * dayMs

/** Reads the time of the newest row of each stream, by the time in the row. It is null if no row is recent. */
export async function newestRows(db: Kysely<Database>): Promise<Record<StreamName, ServiceMs | null>> {
  const lookback = instant(addMs(await newestKnownOrNow(db), -lookbackMs))
  const perInstrument = (table: string, time: string) => sql`
    select max(t.at) from market.instruments i cross join lateral (
      select ${sql.ref(time)} as at from ${sql.table(table)} t
      where t.category = i.category and t.symbol = i.symbol and ${sql.ref(time)} > ${lookback}
      order by ${sql.ref(time)} desc limit 1
    ) t where i.disappeared_at is null`
  const newestCandle = sql`
    select max(t.at) from market.instruments i
    cross join (select distinct type, interval from recorder_page.coverage where stream = 'candles'
      union select 'market', '1m') as s
    cross join lateral (
      select open_time as at from market.candles t
      where t.category = i.category and t.symbol = i.symbol and t.type = s.type::market.candle_type
        and t.interval = s.interval::market.candle_interval and open_time > ${lookback}
      order by open_time desc limit 1
    ) t where i.disappeared_at is null`
  const newestOf = (name: StreamName) => {
    if (name === 'candles') return newestCandle
    const { table } = streamTraits[name]
    if (table !== 'list') return perInstrument(`market.${name}`, table.timeColumn)
    const changed = name === 'instruments' ? 'updated_at' : 'greatest(valid_from, valid_to)'
    return sql`select max(${sql.raw(changed)}) from ${sql.table(`market.${name}`)}`
  }
  const newest = sql.join(streamNames.map((name) => sql`(${newestOf(name)}) as ${sql.ref(name)}`))
  const { rows } = await sql<Record<StreamName, ServiceMs | null>>`select ${newest}`.execute(db)
  const empty = Object.fromEntries(streamNames.map((name) => [name, null])) as Record<StreamName, ServiceMs | null>
  return { ...empty, ...rows[0] }
}

/**
 * Checks that the database responds. Rejects with the driver's error. Resolves to the delay of a standby in
 * milliseconds: the age of the newest change that it shows. A standby with nothing left to replay has delay 0. Resolves
 * to null for a primary server.
 */
export async function ping(db: Kysely<Database>): Promise<number | null> {
  const { rows } = await sql<{ lagMs: number | null }>`
    select case
      when not pg_is_in_recovery() then null
      -- The age of the newest change also grows while nothing changes, so it is ignored in this case.
      when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
      else (extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::float8
    end as "lagMs"`.execute(db)
  const lagMs = rows[0]?.lagMs ?? null
  return lagMs === null ? null : Math.max(0, lagMs)
}

/** Counts the rows of each table of schema `market` exactly. Reads all of them. */
export async function countRows(db: Kysely<Database>): Promise<Record<MarketTable, number>> {
  const counts = await db
    .selectNoFrom((eb) =>
      marketTables.map((name) =>
        eb
          .selectFrom(`market.${name}`)
          .select(({ fn }) => fn.countAll<number>().as('count'))
          .as(name),
      ),
    )
    .executeTakeFirstOrThrow()
  return counts as Record<MarketTable, number>
}
