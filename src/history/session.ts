import type { Kysely } from 'kysely'
import type { ExchangeClient } from '../exchange/client.js'
import type { TradedCategory } from '../market/category.js'
import { asIfService, type ServiceMs } from '../market/values.js'
import { type Clock, longestTimerMs, sleepFor } from '../runtime/clock.js'
import { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import type { Right } from '../runtime/right.js'
import { newestKnown } from '../ledger/read/overview.js'
import { Lease } from '../lease/lease.js'
import { isLeaseHeld } from '../lease/leaseRow.js'
import { recordInstruments } from '../ledger/instruments.js'
import { type InstrumentSummary, listInstruments } from '../ledger/read/instruments.js'
import type { Database } from '../db/schema.js'
import { OperationStates } from './reach.js'
import { HistoryWorker } from './worker.js'

interface SessionOptions {
  readonly db: Kysely<Database>
  readonly url: string
  readonly openClient: (right: Right) => ExchangeClient
  /** Called when the service has responded, before anything of it is stored. */
  readonly onResponse: () => Promise<void>
  readonly egress: string
  /** Data folder of this command. */
  readonly folder: string
  readonly settleMs: number
  readonly clock: Clock
  /** Returns the time of the service's clock; null before its first response to the client. */
  readonly serviceNow: () => ServiceMs | null
  readonly logger: Logger
  readonly signal: AbortSignal
}

/**
 * The part of a command in a backfill. If it owns the budget of its egress, it fetches the wanted rows itself. Otherwise
 * the process that owns the budget fetches them, and the command takes over when that process ends. A command gives the
 * budget up to a recorder that waits for it: what a recorder misses now cannot all be had later.
 */
export interface BackfillSession {
  isOwner(): boolean
  /**
   * Resolves to the instruments as the service lists them now, with the service's time. If another process owns the
   * budget, resolves to the recorded instruments.
   */
  instruments(
    categories: readonly TradedCategory[],
  ): Promise<{ instruments: InstrumentSummary[]; serviceNow: ServiceMs }>
  /**
   * Resolves to the time of the service's clock. If only another process hears the service, resolves to the time of the
   * newest recorded row.
   */
  now(): Promise<ServiceMs>
  /**
   * Fetches what is wanted until `rest`, and then rejects: at once as the owner of the budget, else after taking it over.
   * Rejects when this process cannot take it over.
   */
  work(): Promise<void>
  /** Stops the work and stores the pages that were received. */
  rest(): Promise<void>
  close(): Promise<void>
}

/**
 * How long another owner's lease must stay unrenewed, or given back, before a command takes the budget. A recorder may
 * only be too busy to renew it, and would have to stop recording. One that ended may be started again.
 */
const takeAfterMs = 15_000

/** Time between two requests that only ask for the time of the service. */
const hearEveryMs = 3_000

export async function openSession(options: SessionOptions): Promise<BackfillSession> {
  const { db, url, openClient, egress, folder, clock, serviceNow, logger } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  let wanted = new AbortController()
  let makingWay: Promise<void> = Promise.resolve()
  const openLease = (more: { readonly takeAfterMs?: number } = {}) => {
    wanted = new AbortController()
    const giveWay = () => {
      if (wanted.signal.aborted) return
      wanted.abort()
      makingWay = makeWay()
    }
    return new Lease(egress, { logger, clock, folder, giveWay, ...more })
  }
  let lease = openLease()
  let client: ExchangeClient | undefined
  // Only an owner needs a client, and the address of the service.
  const ownClient = () => (client ??= openClient(lease))
  let isOwner = false
  const acquire = async (onStandby?: () => void, until = signal) => {
    await lease.acquire(url, { signal: until, ...(onStandby && { onStandby }) })
    isOwner = true
  }
  let worker: HistoryWorker | undefined
  let asking: Promise<unknown> = Promise.resolve()
  const makeWay = async () => {
    // A list takes seconds, and the command could not begin without it.
    await asking.catch(() => undefined)
    isOwner = false
    // The recorder need not wait until the received pages are stored.
    const stopped = worker?.stop()
    worker = undefined
    await lease.release()
    client?.close()
    client = undefined
    lease = openLease({ takeAfterMs })
    await stopped
  }
  let working: Promise<void> = Promise.resolve()
  if (!(await isLeaseHeld(db, egress))) {
    ownClient()
    // The row of a recorder may look given up only because its database was away for a moment.
    const renewed = new AbortController()
    await acquire(() => renewed.abort(), AbortSignal.any([signal, renewed.signal])).catch((error: unknown) => {
      if (signal.aborted || !renewed.signal.aborted) throw error
    })
  }
  if (!isOwner) {
    client?.close()
    client = undefined
    lease = openLease({ takeAfterMs })
  }

  const fetchWanted = async () => {
    for (;;) {
      await makingWay
      if (!isOwner) await acquire()
      const until = AbortSignal.any([signal, wanted.signal])
      const own = { client: ownClient(), states: new OperationStates(clock), incidents: new Incidents(logger, clock) }
      if (await isHeard(own.client, serviceNow, clock, until))
        worker = new HistoryWorker({ ...options, ...own, series: () => [] })
      while (await sleepFor(clock, longestTimerMs, until));
      signal.throwIfAborted()
    }
  }
  const now = async () => serviceNow() ?? (await newestKnown(db)) ?? asIfService(clock.now())
  const rest = async () => {
    giveUp.abort(new Error('the backfill was stopped'))
    await working.catch(() => undefined)
    await makingWay
    await worker?.stop()
  }
  return {
    isOwner: () => isOwner,
    async instruments(categories) {
      // If another process owns the budget, that process reads the lists.
      if (isOwner) await (asking = recordLists(options, ownClient(), categories))
      const listed = await listInstruments(db)
      return {
        instruments: listed.filter(({ category }) => (categories as readonly string[]).includes(category)),
        serviceNow: await now(),
      }
    },
    now,
    work: () => (working = fetchWanted()),
    rest,
    async close() {
      await rest()
      client?.close()
      await lease.release()
    },
  }
}

async function recordLists(
  { db, signal, onResponse }: SessionOptions,
  client: ExchangeClient,
  categories: readonly TradedCategory[],
): Promise<void> {
  for (const category of categories) {
    const page = await client.instruments({ category }, { signal })
    await onResponse()
    // One list may be cut off, so that it removes nothing.
    await recordInstruments(db, category, page.rows, page.requestTime)
  }
}

/**
 * Requests a short list until a response is believed. Without the time of the service nothing can be judged. Resolves to
 * false when the signal aborts.
 */
async function isHeard(
  client: ExchangeClient,
  serviceNow: SessionOptions['serviceNow'],
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  while (serviceNow() === null && !signal.aborted)
    await client.rpiSymbols({ signal }).catch(() => sleepFor(clock, hearEveryMs, signal))
  return !signal.aborted
}
