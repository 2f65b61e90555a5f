import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../../market/candle.js'
import type { Database } from '../../db/schema.js'

export type ReachKey = Pick<CandleSeries, 'category' | 'type' | 'interval'>

/** How far back `candles` reaches for an interval, as ages of a candle's opening time in milliseconds. */
export interface Reach {
  /** Candles up to this age were answered. */
  readonly reachedMs: number
  /** At this age `candles` had nothing where `history-candles` had candles; null where that was not met yet. */
  readonly beyondMs: number | null
}

/** What was learned within the last week; the service may change its mind. Null when nothing was. */
export async function loadReach(db: Kysely<Database>, key: ReachKey): Promise<Reach | null> {
  const { rows } = await sql<Reach>`
    select (extract(epoch from reached) * 1000)::float8 as "reachedMs",
      (extract(epoch from beyond) * 1000)::float8 as "beyondMs"
    from recorder.candle_reach
    where category = ${key.category} and type = ${key.type} and interval = ${key.interval}
      and learned_at > now() - interval '7 days'`.execute(db)
  return rows[0] ?? null
}

export async function saveReach(db: Kysely<Database>, key: ReachKey, reach: Reach): Promise<void> {
  const span = (ms: number | null) => (ms === null ? sql`null` : sql`make_interval(secs => ${ms}::float8 / 1000)`)
  await sql`
    insert into recorder.candle_reach as r (category, type, interval, reached, beyond)
    values (${key.category}, ${key.type}, ${key.interval}, ${span(reach.reachedMs)}, ${span(reach.beyondMs)})
    on conflict (category, type, interval) do update
      set reached = excluded.reached, beyond = excluded.beyond, learned_at = now()`.execute(db)
}
