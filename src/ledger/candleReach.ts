import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import type { Database } from '../db/schema.js'

type ReachKey = Pick<CandleSeries, 'category' | 'type' | 'interval'>

/** How far back `candles` reaches for an interval. */
export interface KnownReach {
  /** Age of an opening time that it has no candle for. */
  readonly ageMs: number
  readonly learnedAt: TimeMs
}

/** Null when nothing was learned. */
export async function loadReach(db: Kysely<Database>, key: ReachKey): Promise<KnownReach | null> {
  const { rows } = await sql<KnownReach>`
    select (extract(epoch from age) * 1000)::float8 as "ageMs", learned_at as "learnedAt"
    from recorder.candle_reach
    where category = ${key.category} and type = ${key.type} and interval = ${key.interval}`.execute(db)
  return rows[0] ?? null
}

export async function saveReach(db: Kysely<Database>, key: ReachKey, ageMs: number): Promise<void> {
  const age = sql`make_interval(secs => ${ageMs}::float8 / 1000)`
  await sql`
    insert into recorder.candle_reach as r (category, type, interval, age)
    values (${key.category}, ${key.type}, ${key.interval}, ${age})
    on conflict (category, type, interval) do update
      set age = excluded.age, learned_at = now()`.execute(db)
}
