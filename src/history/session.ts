import type { Kysely } from 'kysely'
import type { ExchangeClient } from '../exchange/client.js'
import type { TradedCategory } from '../market/category.js'
import type { TimeMs } from '../market/values.js'
import { normalizeInstrument } from '../normalize/instruments.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { acquireEgressLock, type EgressLock, isEgressOwned } from '../store/egress/egressLock.js'
import { type InstrumentSummary, listInstruments, recordInstruments } from '../store/live/instruments.js'
import type { Database } from '../store/db/schema.js'
import { type BackfillQueue, openBackfillQueue } from './job.js'
import { type BackfillWorker, startBackfillWorker } from './worker.js'

export interface SessionOptions {
  readonly db: Kysely<Database>
  readonly url: string
  readonly client: ExchangeClient
  readonly egress: string
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
}

/**
 * A command's part in the work. It owns the budget of its egress and works itself, or leaves that to the process that
 * owns it; when that one ends, it takes over.
 */
export interface BackfillSession {
  isOwner(): boolean
  /** The instruments as the service lists them now, or as its owner has recorded them; and the service's clock. */
  instruments(categories: readonly TradedCategory[]): Promise<{ instruments: InstrumentSummary[]; serviceNow: TimeMs }>
  queue(): Promise<BackfillQueue>
  /** Sees to it that somebody works on the queue. */
  work(): Promise<void>
  /** Stops working; what is in hand is stored, and jobs are put back. */
  rest(): Promise<void>
  close(): Promise<void>
}

export async function openSession(options: SessionOptions): Promise<BackfillSession> {
  const { db, url, client, egress, clock, logger } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  const acquire = () =>
    acquireEgressLock(url, egress, {
      logger,
      clock,
      signal,
      onChange: (maySend) => (maySend ? client.resume() : client.suspend()),
    })
  let lock: EgressLock | undefined
  let worker: BackfillWorker | undefined
  let queue: BackfillQueue | undefined
  let takingOver: Promise<void> = Promise.resolve()
  if (!(await isEgressOwned(db, egress))) lock = await acquire()

  const openQueue = async () => {
    queue ??= await openBackfillQueue(db, { url, logger })
    return queue
  }
  const startWorker = async () => {
    worker ??= startBackfillWorker({ ...options, queue: await openQueue() })
  }
  const rest = async () => {
    giveUp.abort(new Error('the backfill was stopped'))
    await takingOver
    await worker?.stop()
  }
  return {
    isOwner: () => lock !== undefined,
    async instruments(categories) {
      if (lock === undefined) {
        const listed = await listInstruments(db)
        const instruments = listed.filter(({ category }) => (categories as readonly string[]).includes(category))
        return { instruments, serviceNow: clock.now() }
      }
      let serviceNow = clock.now()
      for (const category of categories) {
        const page = await client.instruments({ category }, { signal })
        const instruments = page.rows.map(normalizeInstrument)
        await recordInstruments(db, category, instruments, page.requestTime, {
          complete: page.rejected.length + page.surplusRows === 0 && instruments.length > 0,
        })
        serviceNow = page.requestTime
      }
      const listed = await listInstruments(db)
      return {
        instruments: listed.filter(({ category }) => (categories as readonly string[]).includes(category)),
        serviceNow,
      }
    },
    queue: openQueue,
    async work() {
      if (lock !== undefined) return startWorker()
      takingOver = acquire().then(
        async (acquired) => {
          lock = acquired
          await startWorker()
        },
        (error: unknown) => {
          if (!signal.aborted) logger.warn(`backfill: ${error instanceof Error ? error.message : String(error)}`)
        },
      )
    },
    rest,
    async close() {
      await rest()
      await queue?.close()
      client.close()
      await lock?.release()
    },
  }
}
