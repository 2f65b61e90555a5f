import { type Clock, sleepUntil } from '../../runtime/clock.js'
import type { Batch } from '../../ledger/batch/batch.js'
import { gapsOfDropped } from './droppedBatches.js'

export interface UnnotedGapsOptions {
  readonly clock: Clock
  /** Keeps exactly these on the disk, in room that was taken before. Resolves to whether it could. */
  readonly keep: (notes: readonly Batch[]) => Promise<boolean>
  /** Each resolves to whether the note is durable there. */
  readonly store: (note: Batch) => Promise<boolean>
  readonly append: (note: Batch) => Promise<boolean>
}

/** What could be noted nowhere is tried again so soon. */
const againMs = 1_000
/** So many stay as they were found; of more, those of a series become one. */
const maxGaps = 2_000

/**
 * Gaps for whose notes neither the database nor the disk has room, as batches without rows: kept in memory and in the disk's
 * reserve until one of them has.
 */
export class UnnotedGaps {
  readonly #options: UnnotedGapsOptions
  #notes: readonly Batch[] = []
  #maxGaps = maxGaps
  /** On their way to the database or the disk. */
  readonly #inHand = new Set<Batch>()
  /** Of what may yet be stored. */
  readonly #undecided = new Set<readonly Batch[]>()
  #keeping: Promise<boolean> = Promise.resolve(true)
  #nextKeeping: Promise<boolean> | undefined
  #retrying: Promise<void> | undefined
  readonly #closing = new AbortController()

  constructor(options: UnnotedGapsOptions) {
    this.#options = options
  }

  /** Resolves to whether they outlive a crash from now on. */
  async add(notes: readonly Batch[]): Promise<boolean> {
    if (notes.length === 0) return true
    this.#merge(notes)
    return this.#keep()
  }

  /**
   * The same, unless the attempt to avoid the gaps succeeds, whose outcome is returned. They are kept before it begins: a crash at
   * its end leaves a gap where nothing is missing rather than nothing where something is.
   */
  async addUnless(notes: readonly Batch[], attempt: () => Promise<boolean>): Promise<boolean> {
    if (notes.length === 0) return attempt()
    this.#undecided.add(notes)
    await this.#keep()
    const isAvoided = await attempt()
    this.#undecided.delete(notes)
    if (!isAvoided) this.#merge(notes)
    await this.#keep()
    return isAvoided
  }

  /** Brings them to the database, as far as it takes them. */
  store(): Promise<void> {
    return this.#bring(this.#options.store)
  }

  /** Brings them to the disk, as far as it takes them. */
  append(): Promise<void> {
    return this.#bring(this.#options.append)
  }

  /** Ends trying, with a last time. What is in the reserve stays for the next recorder. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#retrying
    await this.append()
    if (!(await this.#keep())) await this.store()
  }

  #merge(notes: readonly Batch[]): void {
    this.#notes = [...this.#notes, ...notes]
    if (countGaps(this.#notes) > this.#maxGaps) {
      this.#notes = gapsOfDropped(this.#notes)
      this.#maxGaps = Math.max(maxGaps, 2 * countGaps(this.#notes))
    }
    // They do not wait for the next response, which may be long in coming.
    this.#retrying ??= this.#retry().finally(() => {
      this.#retrying = undefined
      // One that came just then has found it running.
      if (this.#notes.length > 0 && !this.#closing.signal.aborted) this.#merge([])
    })
  }

  async #retry(): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#closing
    while (this.#notes.length > 0 && (await sleepUntil(clock, clock.now() + againMs, signal))) {
      await this.store()
      await this.append()
    }
  }

  async #bring(to: (note: Batch) => Promise<boolean>): Promise<void> {
    const notes = this.#notes
    if (notes.length === 0 || this.#inHand.size > 0) return
    this.#notes = []
    for (const note of notes) this.#inHand.add(note)
    for (const note of notes) {
      // What does not take one does not take the next one either.
      if (!(await to(note))) break
      this.#inHand.delete(note)
    }
    this.#notes = [...this.#inHand, ...this.#notes]
    const isAnyNoted = this.#inHand.size < notes.length
    this.#inHand.clear()
    if (isAnyNoted) await this.#keep()
  }

  /** Whoever comes while one is under way shares the next. */
  #keep(): Promise<boolean> {
    this.#nextKeeping ??= this.#keeping.then(() => {
      this.#keeping = this.#nextKeeping ?? this.#keeping
      this.#nextKeeping = undefined
      return this.#options.keep([...this.#notes, ...this.#inHand, ...[...this.#undecided].flat()])
    })
    return this.#nextKeeping
  }
}

function countGaps(notes: readonly Batch[]): number {
  return notes.reduce((sum, { gaps }) => sum + gaps.length, 0)
}
