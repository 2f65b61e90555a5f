import { type Category, tradedCategories } from '../../market/category.js'
import { isProven, type StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { Batch, FoundGap } from '../../ledger/batch.js'
import type { Spool } from './spool.js'

const droppedReason = 'dropped: neither the database nor the disk took it'

/**
 * The time in which received snapshots of a stream were lost: one range for each category and reason. It stays in
 * memory until the database takes it as a gap, or the disk keeps it. Proven streams do not need it, because what is
 * not proven counts as missing.
 */
export class LostSnapshots {
  readonly #stream: StreamName
  #gaps = new Map<string, FoundGap>()
  /** Notes that are on their way to the database or the disk. */
  readonly #onTheirWay = new Set<Batch>()

  constructor(stream: StreamName) {
    this.#stream = stream
  }

  /** Adds the moment of a response that was dropped, and the gaps that a dropped note names. */
  add({ target, requestTime, rows, gaps }: Batch): void {
    for (const gap of gaps) this.#widen(gap)
    if (rows.length === 0) return
    const { category } = target as { readonly category?: Category }
    const range = { from: requestTime, to: requestTime + 1 }
    this.addRange(range, droppedReason, category === undefined ? tradedCategories : [category])
  }

  addRange(range: TimeRange, reason: string, categories: readonly Category[] = tradedCategories): void {
    if (isProven(this.#stream)) return
    for (const category of categories) this.#widen({ category, symbol: '*', range, reason })
  }

  /** Takes everything that was added, as a batch without rows; null if there is nothing. */
  take(now: number): Batch | null {
    if (this.#gaps.size === 0) return null
    const gaps = [...this.#gaps.values()]
    this.#gaps = new Map()
    const target = { category: gaps[0]?.category }
    const nothing = { rows: [], rejected: [] }
    const note = { stream: this.#stream, target, requestTime: now, receivedAt: now, ...nothing, gaps, isPart: true }
    this.#onTheirWay.add(note)
    return note
  }

  /**
   * Writes all ranges to the disk, because memory ends with the process. That includes ranges on their way to the
   * database: storing one twice changes nothing. Resolves to true if there was something and the disk took it.
   */
  async leaveTo(spool: Pick<Spool, 'append'>, now: number): Promise<boolean> {
    for (const note of this.#onTheirWay) this.settle(note, false)
    const note = this.take(now)
    if (note === null) return false
    const isKept = await spool.append(note).then(
      () => true,
      () => false,
    )
    this.settle(note, isKept)
    return isKept
  }

  /** Settles a note from `take`. If it was not stored, its gaps are added again. */
  settle(note: Batch, isStored: boolean): void {
    if (!this.#onTheirWay.delete(note) || isStored) return
    for (const gap of note.gaps) this.#widen(gap)
  }

  #widen(gap: FoundGap): void {
    const key = `${gap.category} ${gap.reason}`
    const { from, to } = this.#gaps.get(key)?.range ?? gap.range
    this.#gaps.set(key, { ...gap, range: { from: Math.min(from, gap.range.from), to: Math.max(to, gap.range.to) } })
  }
}
