import type { ExchangeClient } from '../exchange/client.js'
import type { TradedCategory } from '../market/category.js'
import type { ServiceMs } from '../market/values.js'
import { type Clock, longestTimerMs, sleepFor } from '../runtime/clock.js'
import { Incidents } from '../runtime/incidents.js'
import type { Right } from '../runtime/right.js'
import { Lease } from '../lease/lease.js'
import { leaseHolder, serviceTimeOfOwner } from '../lease/leaseRow.js'
import { recordInstruments } from '../ledger/instruments.js'
import { type InstrumentSummary, listInstruments, unreadLists } from '../ledger/read/instruments.js'
import { OperationStates } from './reach.js'
import type { SliceContext } from './sliceWork.js'
import { HistoryWorker } from './worker.js'

interface SessionOptions extends Pick<SliceContext, 'db' | 'clock' | 'serviceNow' | 'logger' | 'settleMs'> {
  readonly url: string
  readonly openClient: (right: Right) => ExchangeClient
  /** Called when the service has responded, before anything of it is stored. */
  readonly onResponse: () => Promise<void>
  readonly egress: string
  /** Data folder of this command. */
  readonly folder: string
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
   * budget, resolves to the recorded instruments, and to the time that the other process heard. Rejects if that time or
   * a list stays unknown.
   */
  instruments(
    categories: readonly TradedCategory[],
  ): Promise<{ instruments: InstrumentSummary[]; serviceNow: ServiceMs }>
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

/** How long a command waits for the owner of the budget to hear from the service. It may have started just now. */
const ownerHearsWithinMs = 10_000
const lookEveryMs = 500

/** Time between two requests that only ask for the time of the service. */
const hearEveryMs = 3_000

export async function openSession(options: SessionOptions): Promise<BackfillSession> {
  const { db, egress, clock, serviceNow } = options
  const giveUp = new AbortController()
  const signal = AbortSignal.any([options.signal, giveUp.signal])
  let worker: HistoryWorker | undefined
  let asking: Promise<unknown> = Promise.resolve()
  const stopWork = async () => {
    const stopped = worker
    worker = undefined
    await stopped?.stop()
  }
  const right = new CommandRight(options, { end: () => asking, stop: stopWork })
  if ((await leaseHolder(db, egress)) === null) await right.acquireUnlessRenewed(signal)
  if (!right.isOwner) right.takeOverLater()

  const fetchWanted = async () => {
    for (;;) {
      await right.givenAway
      if (!right.isOwner) await right.acquire(signal)
      const until = AbortSignal.any([signal, right.wanted])
      const own = {
        client: right.client,
        states: new OperationStates(clock),
        incidents: new Incidents(options.logger, clock),
      }
      if (await isHeard(own.client, serviceNow, clock, until)) worker = new HistoryWorker({ ...options, ...own })
      while (await sleepFor(clock, longestTimerMs, until));
      signal.throwIfAborted()
    }
  }
  let working: Promise<void> = Promise.resolve()
  const rest = async () => {
    giveUp.abort(new Error('the backfill was stopped'))
    await working.catch(() => undefined)
    await right.givenAway
    await worker?.stop()
  }
  return {
    isOwner: () => right.isOwner,
    async instruments(categories) {
      const asks = right.isOwner
      if (asks) await (asking = recordLists(options, right.client, categories))
      const now = (asks ? serviceNow() : null) ?? (await hearOwner(options, categories))
      const listed = await listInstruments(db)
      return {
        instruments: listed.filter(({ category }) => (categories as readonly string[]).includes(category)),
        serviceNow: now,
      }
    },
    work: () => (working = fetchWanted()),
    rest,
    async close() {
      await rest()
      await right.close()
    },
  }
}

/** The right of a command to send. It gives the right to a recorder that waits for it, and takes it again later. */
class CommandRight {
  isOwner = false
  /** Resolves when the right has been given to a recorder that wants it. */
  givenAway: Promise<void> = Promise.resolve()
  readonly #options: SessionOptions
  readonly #work: { end(): Promise<unknown>; stop(): Promise<void> }
  #wanted = new AbortController()
  #lease: Lease
  #client: ExchangeClient | undefined

  /** @param work requests that must end before the right is given away, and how the others are stopped */
  constructor(options: SessionOptions, work: { end(): Promise<unknown>; stop(): Promise<void> }) {
    this.#options = options
    this.#work = work
    this.#lease = this.#openLease({})
  }

  /** Aborts when a recorder wants the right. */
  get wanted(): AbortSignal {
    return this.#wanted.signal
  }

  /** The client of an owner. Nobody else needs one, or the address of the service. */
  get client(): ExchangeClient {
    return (this.#client ??= this.#options.openClient(this.#lease))
  }

  async acquire(signal: AbortSignal, onStandby?: () => void): Promise<void> {
    await this.#lease.acquire(this.#options.url, { signal, ...(onStandby && { onStandby }) })
    this.isOwner = true
  }

  /** Acquires the right, unless a recorder renews it meanwhile. */
  async acquireUnlessRenewed(signal: AbortSignal): Promise<void> {
    void this.client
    // The row of a recorder may look given up only because its database was away for a moment.
    const renewed = new AbortController()
    await this.acquire(AbortSignal.any([signal, renewed.signal]), () => renewed.abort()).catch((error: unknown) => {
      if (signal.aborted || !renewed.signal.aborted) throw error
    })
  }

  /** Prepares to take the right from an owner that is gone for good. */
  takeOverLater(): void {
    this.#client?.close()
    this.#client = undefined
    this.#lease = this.#openLease({ takeAfterMs })
  }

  async close(): Promise<void> {
    this.#client?.close()
    await this.#lease.release()
  }

  #openLease(more: { readonly takeAfterMs?: number }): Lease {
    const { egress, logger, clock, folder, serviceNow } = this.#options
    const wanted = new AbortController()
    this.#wanted = wanted
    const giveWay = () => {
      if (wanted.signal.aborted) return
      wanted.abort()
      this.givenAway = this.#giveAway()
    }
    return new Lease(egress, { logger, clock, folder, serviceNow, giveWay, ...more })
  }

  async #giveAway(): Promise<void> {
    // A list takes seconds, and the command could not begin without it.
    await this.#work.end().catch(() => undefined)
    this.isOwner = false
    // The recorder need not wait until the received pages are stored.
    const stopped = this.#work.stop()
    await this.#lease.release()
    this.takeOverLater()
    await stopped
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
 * Waits until the owner of the budget has told the time of the service, and has recorded the lists of these categories.
 * The record is no clock, and a list that nobody has read says nothing about its instruments.
 */
async function hearOwner(
  { db, egress, clock, signal }: SessionOptions,
  categories: readonly TradedCategory[],
): Promise<ServiceMs> {
  for (let ms = 0; ; ms += lookEveryMs) {
    const time = await serviceTimeOfOwner(db, egress)
    const unread = await unreadLists(db, categories)
    if (time !== null && unread.length === 0) return time
    if (ms >= ownerHearsWithinMs) {
      const unknown = unread.map((category) => `the list of ${category}`)
      if (time === null) unknown.push('the time of the service')
      throw new Error(
        `not known yet: ${unknown.join(', ')}; what sends from ${egress} has not asked for it, so try again later`,
      )
    }
    await clock.sleep(lookEveryMs, signal)
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
