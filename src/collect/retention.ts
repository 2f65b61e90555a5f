import type { Kysely } from 'kysely'
import { type Config, storageOf } from '../config/resolve.js'
import { serviceMs, type ServiceMs } from '../market/values.js'
import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { forget, removalTime } from '../ledger/forget.js'
import { applyRetention } from '../server/timescale/retention.js'
import { onSchedule } from './schedule/cron.js'
import { recordedUniverse } from './fleet/sharedLists.js'
import { assumedUniverse } from './universe/planUniverse.js'
import { type Plan, planFairShares } from './plan/plan.js'

/** Removal runs away from full hours, when candles of all intervals close at once. */
const hourly = '30 23 * * * *'

/** Time between two looks at the service's clock, which is unknown before its first response. */
const firstResponseEveryMs = 1_000

interface RetentionDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly incidents: Incidents
  /** Returns the time of the service's clock; null before its first response. */
  readonly serviceNow: () => ServiceMs | null
}

/**
 * Removes rows older than the configuration keeps: at the service's first response, and every hour until it is stopped.
 * The earliest of three clocks tells what is old. If the clocks differ by much, nothing is removed.
 */
export function startRetention(
  config: Config,
  db: Kysely<Database>,
  { clock, logger, incidents, serviceNow }: RetentionDependencies,
): { stop(): Promise<void> } {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = () => {
    // A removal that takes longer than an hour goes on, and no second one is started.
    running ??= removeOld().finally(() => {
      running = undefined
    })
  }
  const warn = (line: string) => logger.warn(`old rows were not removed, the next attempt is in an hour: ${line}`)
  const removeOld = async () => {
    try {
      const now = await earliestNow()
      if (now === null) return
      const { removed, kept } = await applyRetention(db, forget, storageOf(config), now, stopping.signal)
      for (const line of removed) logger.info(line)
      for (const line of kept) warn(line)
    } catch (error) {
      warn(describeDatabaseError(error))
    }
  }
  /** Resolves to null if the clocks do not agree, or if removal is stopped before the service responds. */
  const earliestNow = async (): Promise<ServiceMs | null> => {
    while (serviceNow() === null) {
      if (!(await sleepFor(clock, firstResponseEveryMs, stopping.signal))) return null
    }
    const time = await removalTime(db, {
      machineNow: () => clock.now(),
      serviceNow: () => serviceNow() ?? serviceMs(NaN),
    })
    if ('now' in time) {
      incidents.succeeded('retention')
      return time.now
    }
    incidents.failed('retention', time.problem)
    return null
  }
  const stopSchedule = onSchedule(clock, hourly, run)
  run()
  return {
    async stop() {
      stopping.abort()
      stopSchedule()
      await running
    },
  }
}

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
