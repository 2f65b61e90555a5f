import type { Kysely } from 'kysely'
import type { ExchangeClient } from '../exchange/client.js'
import type { TradedCategory } from '../market/category.js'
import { asIfService, type ServiceMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import { acquireLease, type Lease } from '../lease/lease.js'
import { isLeaseHeld } from '../lease/leaseRow.js'
import { isWholeList } from '../ledger/batch.js'
import { recordInstruments } from '../ledger/instruments.js'
import { type InstrumentSummary, listInstruments } from '../ledger/read/instruments.js'
import type { Database } from '../db/schema.js'
import { OperationStates } from './reach.js'
import { HistoryWorker } from './worker.js'

interface SessionOptions {
  readonly db: Kysely<Database>
  readonly url: string
  /** Creates the client, once this process may send. No request departs while `mayDepart` returns false. */
  readonly openClient: (mayDepart: () => boolean) => ExchangeClient
  readonly egress: string
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
}

/**
 * The part of a command in a backfill. If it owns the budget of its egress, it fetches the wanted rows itself. Otherwise
 * the process that owns the budget fetches them, and the command takes over when that process ends.
 */
export interface BackfillSession {
  isOwner(): boolean
  /**
   * Resolves to the instruments as the service lists them now, with the service's time. If another process owns the
   * budget, resolves to the recorded instruments, with this machine's time.
   */
  instruments(
    categories: readonly TradedCategory[],
  ): Promise<{ instruments: InstrumentSummary[]; serviceNow: ServiceMs }>
  /**
   * Starts to fetch what is wanted: at once as the owner of the budget, else after taking it over. Rejects when this
   * process cannot take it over.
   */
  work(): Promise<void>
  /** Stops the work and stores the pages that were received. */
  rest(): Promise<void>
  close(): Promise<void>
}

/**
 * How long another owner's lease must stay unrenewed before a command takes the budget. A recorder may only be too busy
 * to renew it, and would have to stop recording.
 */
const takeAfterMs = 15_000

export async function openSession(options: SessionOptions): Promise<BackfillSession> {
  const { db, url, openClient, egress, clock, logger } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  let lease: Lease | undefined
  let client: ExchangeClient | undefined
  const ownClient = () => (client ??= openClient(() => lease?.check() ?? false))
  const acquire = async (patience: { readonly takeAfterMs?: number } = {}) =>
    (lease = await acquireLease(url, egress, {
      logger,
      clock,
      signal,
      ...patience,
      onChange: (maySend) => (maySend ? client?.resume() : client?.suspend()),
    }))
  let worker: HistoryWorker | undefined
  let working: Promise<void> = Promise.resolve()
  if (!(await isLeaseHeld(db, egress))) {
    ownClient()
    await acquire()
  }

  const startWorker = async () => {
    if (lease === undefined) {
      await acquire({ takeAfterMs })
      // `resume` delays the first request, because the other process may have sent until a moment ago.
      ownClient().resume()
    }
    const own = { client: ownClient(), states: new OperationStates(clock), incidents: new Incidents(logger, clock) }
    worker ??= new HistoryWorker({ ...options, ...own, series: () => [] })
  }
  const rest = async () => {
    giveUp.abort(new Error('the backfill was stopped'))
    await working.catch(() => undefined)
    await worker?.stop()
  }
  return {
    isOwner: () => lease !== undefined,
    async instruments(categories) {
      let serviceNow = asIfService(clock.now())
      // If another process owns the budget, that process reads the lists.
      for (const category of lease === undefined ? [] : categories) {
        const page = await ownClient().instruments({ category }, { signal })
        await recordInstruments(db, category, page.rows, page.requestTime, { complete: isWholeList(page) })
        serviceNow = page.requestTime
      }
      const listed = await listInstruments(db)
      return {
        instruments: listed.filter(({ category }) => (categories as readonly string[]).includes(category)),
        serviceNow,
      }
    },
    work: () => (working = startWorker()),
    rest,
    async close() {
      await rest()
      client?.close()
      await lease?.release()
    },
  }
}
