import pLimit from 'p-limit'
import { backoffMs } from '../../runtime/backoff.js'
import type { Clock } from '../../runtime/clock.js'
import { type Batch, seriesKey } from '../../ledger/batch/batch.js'
import { type BatchSpool, type Lane, lanes, type SpooledSegment } from './batchSpool.js'

export interface ReplayOptions {
  readonly spool: BatchSpool
  readonly clock: Clock
  /** How many batches are stored at once. */
  readonly parallel: number
  /** Stores a batch, all of it or nothing. Rejects when the database is away. */
  readonly store: (batch: Batch) => Promise<void>
  /** Rejects while the database does not respond. */
  readonly probe: () => Promise<void>
  readonly onFailure: (error: unknown) => void
  /** The spool is empty, and nothing will be appended before the next `start`. */
  readonly onDone: () => void
}

const retry = { minMs: 250, maxMs: 2_000 }
const closeMs = 2_000
/** About as long as a write and a sync take. */
const onItsWayMs = 10
/** With so few batches left in a round, the responses that come wait for the end instead of joining the queue. */
const lastRound = 64

/** Brings what is in the spool to the database, in order for each instrument, until nothing is left. */
export class Replay {
  readonly #options: ReplayOptions
  readonly #stopping = new AbortController()
  /** What of a segment is stored already, should the database go away in its middle. */
  readonly #stored = new Map<string, Set<number>>()
  #running: Promise<void> | undefined
  #isFailing = false
  #handover: Promise<void> | undefined

  constructor(options: ReplayOptions) {
    this.#options = options
  }

  /** While the last batches are replayed, whoever has a new one waits for this: for milliseconds, not for the database. */
  get handover(): Promise<void> | undefined {
    return this.#handover
  }

  /** Does nothing when it is running already. */
  start(): void {
    if (this.#stopping.signal.aborted) return
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      // Whoever started it a moment ago, when it was about to end, has started nothing.
      if (!this.#options.spool.isEmpty) this.start()
    })
  }

  /** Ends at once when the database is away, otherwise when all is replayed or `signal` aborts. */
  async close(signal: AbortSignal): Promise<void> {
    const stop = () => this.#stopping.abort()
    if (this.#isFailing || signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const patience = new AbortController()
    const stopped = new Promise<void>((resolve) => {
      const giveUp = () => void this.#options.clock.sleep(closeMs, patience.signal).then(resolve, resolve)
      if (this.#stopping.signal.aborted) giveUp()
      else this.#stopping.signal.addEventListener('abort', giveUp, { once: true })
    })
    // What hangs in the database is on disk as well.
    await Promise.race([this.#running, stopped])
    patience.abort()
    signal.removeEventListener('abort', stop)
    stop()
  }

  async #run(): Promise<void> {
    const { spool, clock, probe, onDone, onFailure } = this.#options
    const { signal } = this.#stopping
    for (let failures = 0, isLast = false; !signal.aborted;) {
      try {
        // What waits is read from the disk only when there is somebody to take it.
        if (this.#isFailing) await probe()
        const replayed: number = isLast ? await this.#finish() : await this.#round()
        this.#isFailing = false
        failures = 0
        if (spool.isEmpty) return onDone()
        // Only a database that has just taken something is worth waiting for.
        isLast = replayed > 0 && replayed <= lastRound
        // What waits is still on its way to the disk, or does not get there. Without a pause nothing else would have a turn.
        if (replayed === 0) await clock.sleep(onItsWayMs, signal).catch(() => undefined)
      } catch (error) {
        this.#isFailing = true
        isLast = false
        onFailure(error)
        failures++
        await clock.sleep(backoffMs(failures, retry), signal).catch(() => undefined)
      }
    }
  }

  /** A round that nobody adds to. If it fails, adding goes on. */
  async #finish(): Promise<number> {
    let open = () => {}
    this.#handover = new Promise((resolve) => {
      open = resolve
    })
    try {
      let replayed = 0
      // What was on its way to the disk arrives within a sync or two.
      while (!this.#options.spool.isEmpty && !this.#stopping.signal.aborted) {
        replayed += await this.#round()
        await this.#options.clock.sleep(1)
      }
      return replayed
    } finally {
      this.#handover = undefined
      // Whoever waits finds the new state: onDone is called before they are.
      setImmediate(open)
    }
  }

  /** Replays what was there when it began, and returns how many batches that were. */
  async #round(): Promise<number> {
    const results = await Promise.allSettled(lanes.map((lane) => this.#replayLane(lane)))
    let replayed = 0
    for (const result of results) {
      if (result.status === 'rejected') throw result.reason
      replayed += result.value
    }
    return replayed
  }

  async #replayLane(lane: Lane): Promise<number> {
    let replayed = 0
    for (let count = 0; count < 1_000 && !this.#stopping.signal.aborted; count++) {
      const spooled = await this.#options.spool.oldest(lane)
      if (spooled === null) break
      let isStored = false
      try {
        isStored = await this.#replaySegment(spooled)
        if (isStored) this.#stored.delete(spooled.key)
      } finally {
        await this.#options.spool.release(spooled, isStored)
      }
      replayed += spooled.segment.records.length
      // A short segment is the end of what has piled up: what came meanwhile is for the next round.
      if (spooled.segment.records.length <= lastRound) break
    }
    return replayed
  }

  /** False when it was stopped in the middle. */
  async #replaySegment({ key, segment }: SpooledSegment): Promise<boolean> {
    const { spool, store, parallel } = this.#options
    const stored = this.#stored.get(key) ?? new Set<number>()
    this.#stored.set(key, stored)
    const limit = pLimit(parallel)
    const tails = new Map<string, Promise<void>>()
    const inHand = new Set<Promise<void>>()
    let failure: { readonly error: unknown } | undefined
    const isOver = () => failure !== undefined || this.#stopping.signal.aborted
    const hand = async (batch: Batch, index: number) => {
      // In memory is only what is being stored and little more.
      if (inHand.size >= parallel * 2) await Promise.race(inHand)
      const order = seriesKey(batch)
      const before = tails.get(order)
      const storing = limit(async () => {
        await before
        if (failure !== undefined) return
        try {
          await store(batch)
          stored.add(index)
        } catch (error) {
          failure ??= { error }
        }
      })
      tails.set(order, storing)
      inHand.add(storing)
      void storing.then(() => inHand.delete(storing))
    }
    for (const [index, record] of segment.records.entries()) {
      if (stored.has(index)) continue
      if (isOver()) break
      for (const batch of await spool.decode(record)) await hand(batch, index)
    }
    await Promise.all(inHand)
    if (failure !== undefined) throw failure.error
    return !this.#stopping.signal.aborted || stored.size === segment.records.length
  }
}
