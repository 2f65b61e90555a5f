import type { Kysely } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import { duration } from '../db/columns.js'
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
  const known = await db
    .selectFrom('recorder.candle_reach')
    .select((eb) => eb.fn<number>('date_part', [eb.val('epoch'), 'age']).as('seconds'))
    .select('learned_at as learnedAt')
    .where('category', '=', key.category)
    .where('type', '=', key.type)
    .where('interval', '=', key.interval)
    .executeTakeFirst()
  return known === undefined ? null : { ageMs: known.seconds * 1000, learnedAt: known.learnedAt }
}

export async function saveReach(
  db: Kysely<Database>,
  { category, type, interval }: ReachKey,
  ageMs: number,
): Promise<void> {
  await db
    .insertInto('recorder.candle_reach')
    .values({ category, type, interval, age: duration(ageMs) })
    .onConflict((conflict) =>
      conflict
        .columns(['category', 'type', 'interval'])
        .doUpdateSet((eb) => ({ age: eb.ref('excluded.age'), learned_at: eb.fn('now') })),
    )
    .execute()
}
