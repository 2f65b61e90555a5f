import type { Kysely } from 'kysely'
import { type Config, storageOf } from '../config/resolve.js'
import type { Database } from '../db/schema.js'
import { recordedUniverse } from './fleet/sharedLists.js'
import { assumedUniverse } from './universe/planUniverse.js'
import { planFairShares } from './plan/fleetPlan.js'
import type { Plan } from './plan/plan.js'

/** Books differ more than other tables in how many come: from some a minute to the deepest of every instrument. */
const bookTables = ['order_books', 'rpi_order_books'] as const
/** Lengths of their chunks in hours, the longest first. A year is 52, 122, 365 or, for the largest books, 730 chunks. */
const bookChunkHours = [168, 72, 24, 12] as const
/** Most bytes of a chunk before it is converted. The server holds a newest chunk of this size in its memory. */
const maxChunkBytes = 4e9

type Storage = ReturnType<typeof storageOf>

/**
 * Reads how each table is kept. Chunks of books are as long as the plan's rows allow, because each statement on a long
 * time locks and plans every chunk. The plan is of the recorded market, or before there is one of an assumed one. Needs
 * a migrated database.
 */
export async function readStorage(db: Kysely<Database>, config: Config): Promise<Storage> {
  const universe = (await recordedUniverse(db))?.planned() ?? assumedUniverse()
  return withChunksOf(planFairShares(config, universe, config.collector.egresses), storageOf(config))
}

export function withChunksOf({ streams }: Pick<Plan, 'streams'>, storage: Storage): Storage {
  const lengths = bookTables.flatMap((name) => {
    const planned = streams.find(({ stream }) => stream === name)
    if (planned === undefined) return []
    const { retentionDays = Infinity } = storage[name]
    const fitting = bookChunkHours.find(
      (hours) => (planned.bytesPerDay / 24) * hours <= maxChunkBytes && hours <= retentionDays * 24,
    )
    return [[name, { ...storage[name], chunkHours: fitting ?? 12 }] as const]
  })
  return { ...storage, ...Object.fromEntries(lengths) }
}
