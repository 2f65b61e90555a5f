import { type Batch, seriesKey } from '../../ledger/batch.js'
import type { StoredBatch, StoreOutcome } from '../../ledger/storeBatches.js'
import { describeDatabaseError, traitsOf } from '../../db/databaseError.js'
import type { StreamName } from '../../market/stream.js'
import { onAbort } from '../../runtime/abort.js'
import { backoffMs, type Clock, within } from '../../runtime/clock.js'
import { isFullDisk } from '../../runtime/disk.js'
import type { Incidents } from '../../runtime/incidents.js'
import { messageOf } from '../../runtime/text.js'
import { DiskReader, type End, retry, rowsIn } from './diskReader.js'
import type { Spool } from './spool.js'

/** Stores batches of one stream and resolves to the outcome of each. No two batches with rows share a series. */
export type Store = (batches: readonly Batch[]) => Promise<readonly StoreOutcome[]>

interface LaneOptions {
  readonly stream: StreamName
  readonly store: Store
  readonly spool: Spool
  readonly clock: Clock
  readonly incidents: Incidents
  readonly onStored: (batch: Batch, stored: StoredBatch, tookMs: number) => void
}

/** A batch that waits for the database or is being stored. */
interface Entry {
  readonly batch: Batch
  readonly key: string
  /** Reports what became of the batch. Only the first call counts. */
  readonly settle: (end: End) => void
}

/** A batch of a response that has just come. */
interface LiveEntry extends Entry {
  /** True if the disk has refused the batch, so that only the database is left. */
  readonly isRefused: boolean
}

/** A batch that is not stored after this time goes to the disk. So a slow database does not hold up the next one. */
const patienceMs = 2_000
/** Where the disk takes nothing either, nothing waits. */
const whereTheyWait = 'responses that the disk takes wait there'
const tooSlow = `the database takes longer than ${patienceMs / 1000} s for a write: see to its load; ${whereTheyWait}`
export const freeSpace = 'free space on the disk that holds database.dataDir'
/** Two calls keep the database busy while the results of one are on their way. */
const callsAtOnce = 2
/** Largest number of calls under way when some of them hang. While a call hangs, another one may still try. */
const maxCalls = 4
/** Statements of this many rows stay clear of the columnstore's bounds. */
const maxRowsPerCall = 2_000
const maxBatchesPerCall = 64
/** Longest wait at the end for calls that are under way. */
const closeMs = 2_000

/**
 * Takes the batches of one stream to the ledger. While the database is slow or away, batches wait on the disk.
 *
 * A batch is stored from memory, unless the database has just failed or the disk holds an earlier batch of its series.
 * Otherwise it goes to the disk, and comes back into memory in its turn. So the batches of a series are stored in their
 * order, and a failing table holds up only its own stream. There are two exceptions. A batch that the disk refuses stays
 * in memory, and may be stored before earlier ones on the disk. A batch whose statement took too long goes to the end of
 * the spool, so that it holds up no other series.
 *
 * All batches from responses go to the disk if a call fails, or if one of them takes 2 s. A batch that the disk refused
 * is lost if its own call fails or if it waits 2 s. A batch from the disk stays there until it is stored.
 */
export class Lane {
  readonly #options: LaneOptions
  /** Batches that wait, from responses and from the disk, each in the order of arrival. */
  #live: LiveEntry[] = []
  #spooled: Entry[] = []
  /** Live batches that wait or are being stored. */
  readonly #inMemory = new Set<LiveEntry>()
  /** Series whose batches are being stored. Their later batches wait. */
  readonly #busy = new Set<string>()
  readonly #slow = new SlowSeries()
  readonly #calls = new Set<Promise<void>>()
  /** Calls that have taken longer than `patienceMs`. */
  readonly #hanging = new Set<Promise<void>>()
  #onFailure = () => {}
  /** Consecutive failures of the database. */
  #failures = 0
  #isPausing = false
  #appending = 0
  #reading: Promise<void> | undefined
  readonly #stopping = new AbortController()
  readonly #disk: DiskReader

  constructor(options: LaneOptions) {
    this.#options = options
    this.#disk = new DiskReader({
      ...options,
      signal: this.#stopping.signal,
      failures: () => this.#failures,
      // Two calls, and two that wait.
      maxRowsInHand: 2 * callsAtOnce * maxRowsPerCall,
      store: (batch, settle) => {
        this.#spooled.push({ batch, key: seriesKey(batch), settle })
        this.#dispatch()
      },
    })
  }

  /** True while something of the stream is on the disk, or on its way there. */
  get isSpooling(): boolean {
    return this.#appending > 0 || this.#options.spool.has(this.#options.stream)
  }

  /** Resolves to true if the batch is durable. Never rejects: a batch that neither database nor disk takes is lost. */
  write(batch: Batch): Promise<boolean> {
    const isDirect = this.#failures === 0 && !this.#slow.has(seriesKey(batch)) && !this.#options.spool.holds(batch)
    return isDirect ? this.#storeInTime(batch, false) : this.#writeToDisk(batch)
  }

  /** Stores batches from the disk until none is left. Does nothing if that is under way. */
  readDisk(): void {
    if (this.#stopping.signal.aborted) return
    this.#reading ??= this.#disk.readAll().finally(() => {
      this.#reading = undefined
      // A batch that came to the disk just now found this reading under way, and started no other.
      if (this.#options.spool.has(this.#options.stream)) this.readDisk()
    })
  }

  /** Closes the lane: at once if the database is away, otherwise when all is stored or `signal` aborts. */
  async close(signal: AbortSignal): Promise<void> {
    const isOver = new Promise<true>((resolve) => {
      onAbort(signal, () => resolve(true))
      this.#onFailure = () => resolve(true)
    })
    // A failure ends the wait for good. The next call may have succeeded before this function learns of it.
    while (!signal.aborted && this.#failures === 0 && this.#reading !== undefined)
      if ((await Promise.race([isOver, this.#reading])) === true) break
    this.#stopping.abort()
    await within(this.#options.clock, closeMs, Promise.all([...this.#calls, this.#reading]), undefined)
  }

  /** Stores a batch from memory. On failure or delay it goes to the disk, or is lost if the disk has refused it. */
  #storeInTime(batch: Batch, isRefused: boolean): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (end: End) => {
        stopTimer()
        if (!this.#inMemory.delete(entry)) return
        // Write in the same turn of the event loop, so that later batches go to the disk after this one.
        resolve(end === 'stored' || isRefused ? end === 'stored' : this.#writeToDisk(batch))
      }
      const entry: LiveEntry = { batch, key: seriesKey(batch), settle, isRefused }
      const stopTimer = this.#options.clock.after(patienceMs, () => this.#isLate(entry))
      this.#inMemory.add(entry)
      this.#live.push(entry)
      this.#dispatch()
    })
  }

  async #writeToDisk(batch: Batch): Promise<boolean> {
    const { spool, incidents, stream } = this.#options
    let refusal
    this.#appending++
    try {
      await spool.append(batch)
      incidents.succeeded('spool')
      return true
    } catch (error) {
      const advice = isFullDisk(error) ? freeSpace : 'see to it that the recorder may write in database.dataDir'
      refusal = `${messageOf(error)}; ${advice}`
      incidents.failed('spool', refusal)
    } finally {
      this.#appending--
      this.readDisk()
    }
    const isStored = await this.#storeInTime(batch, true)
    if (!isStored)
      incidents.failed('lost responses', `${stream}: neither the database nor the disk takes them: ${refusal}`)
    return isStored
  }

  #dispatch(): void {
    while (this.#mayCall()) {
      const group = this.#take()
      if (group.length === 0) return
      const stopTimer = this.#options.clock.after(patienceMs, () => {
        this.#hanging.add(call)
        this.#dispatch()
      })
      const call = this.#store(group).finally(() => {
        stopTimer()
        this.#calls.delete(call)
        this.#hanging.delete(call)
        this.#dispatch()
      })
      this.#calls.add(call)
    }
  }

  #mayCall(): boolean {
    if (this.#isPausing || this.#stopping.signal.aborted || this.#calls.size >= maxCalls) return false
    return this.#calls.size - this.#hanging.size < (this.#failures > 0 ? 1 : callsAtOnce)
  }

  /** Takes waiting batches as a group. No batch waits for a fuller group: groups form while all calls are under way. */
  #take(): Entry[] {
    const group: Entry[] = []
    let rows = 0
    const take = <From extends Entry>(waiting: From[]): From[] =>
      waiting.filter((entry) => {
        const more = rowsIn(entry.batch)
        // A slow batch is stored alone, because the others of its call would be late with it.
        const isSlow = this.#slow.has(entry.key)
        const isTooMuch = isSlow || rows + more > maxRowsPerCall
        const isFull = group.length >= maxBatchesPerCall || (group.length > 0 && isTooMuch)
        if (isFull) rows = Infinity
        if (isFull || this.#busy.has(entry.key)) return true
        // Only one batch of a series is stored at a time. If it fails, no later one may be stored before it.
        this.#busy.add(entry.key)
        rows += isSlow ? Infinity : more
        group.push(entry)
        return false
      })
    this.#live = take(this.#live)
    this.#spooled = take(this.#spooled)
    return group
  }

  async #store(group: readonly Entry[]): Promise<void> {
    const { stream, clock, incidents, store, onStored } = this.#options
    const startedMs = clock.monotonicMs()
    const storedBefore = this.#slow.count
    const outcomes = await store(group.map(({ batch }) => batch)).catch((error: unknown) =>
      group.map(() => ({ isStored: false, error }) as const),
    )
    for (const { key } of group) this.#busy.delete(key)
    let failure: { readonly error: unknown } | undefined
    for (const [index, entry] of group.entries()) {
      const outcome = outcomes[index] as StoreOutcome
      if (outcome.isStored) {
        onStored(entry.batch, outcome, clock.monotonicMs() - startedMs)
        this.#slow.stored(entry.key)
        incidents.succeeded('late responses', entry.key)
        entry.settle('stored')
      } else if (traitsOf(outcome.error).isCancelled) {
        if (!this.#slow.wasLate(entry.key, storedBefore)) failure = outcome
        else incidents.failed('late responses', lateMessage(entry.key, outcome.error), entry.key)
        entry.settle('late')
        for (const later of this.#spooled.filter(({ key }) => key === entry.key)) later.settle('late')
        this.#spooled = this.#spooled.filter(({ key }) => key !== entry.key)
      } else {
        failure = outcome
        entry.settle('failed')
      }
    }
    if (failure !== undefined) return this.#failed(failure.error)
    if (!outcomes.some(({ isStored }) => isStored)) return
    this.#failures = 0
    incidents.succeeded('storing', stream)
  }

  #failed(error: unknown): void {
    const { clock, incidents, stream } = this.#options
    this.#failures++
    this.#leaveMemory()
    incidents.failed('storing', `${describeDatabaseError(error)}; ${whereTheyWait}`, stream)
    if (this.#isPausing) return
    this.#isPausing = true
    clock.after(backoffMs(this.#failures, retry), () => {
      this.#isPausing = false
      this.#dispatch()
    })
  }

  /** Gives up waiting for a live batch. Its call may still succeed: storing a batch twice equals storing it once. */
  #isLate(entry: LiveEntry): void {
    this.#failures = Math.max(1, this.#failures)
    this.#leaveMemory()
    this.#options.incidents.delayed('storing', tooSlow, this.#options.stream)
    if (entry.isRefused) {
      this.#live = this.#live.filter((other) => other !== entry)
      entry.settle('failed')
    }
  }

  /** Moves unstored batches to the disk, except those it has refused. Calls under way may still succeed. */
  #leaveMemory(): void {
    this.#live = this.#live.filter(({ isRefused }) => isRefused)
    for (const entry of this.#inMemory) if (!entry.isRefused) entry.settle('failed')
    for (const entry of this.#spooled.splice(0)) entry.settle('failed')
    this.#onFailure()
  }
}

function lateMessage(key: string, error: unknown): string {
  return `${describeDatabaseError(error)}; responses of ${key} are not stored, others are`
}

/** Knows which series of a stream are late: the statement that stores their batch takes longer than it may. */
class SlowSeries {
  /** By series, the number of batches that were stored until its last one was late. */
  readonly #late = new Map<string, number>()
  #count = 0

  /** Number of batches that were stored. */
  get count(): number {
    return this.#count
  }

  has(key: string): boolean {
    return this.#late.has(key)
  }

  stored(key: string): void {
    this.#count++
    this.#late.delete(key)
  }

  /**
   * Notes a late batch. Returns true if the series is late alone: others were stored since its call began, or since its
   * last late one.
   *
   * @param storedBefore number of batches that were stored before its call
   */
  wasLate(key: string, storedBefore: number): boolean {
    const isAlone = (this.#late.get(key) ?? storedBefore) < this.#count
    this.#late.set(key, this.#count)
    return isAlone
  }
}
