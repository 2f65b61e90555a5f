/** What waits, ordered by deadline and, for equal ones, by arrival. */
export interface Waiting {
  readonly deadlineMs: number
  readonly sequence: number
  readonly enqueuedAtMs: number
  /** Set when it was aborted: it is skipped when its turn comes. */
  cancelled: boolean
}

/** A binary heap. Cancelled entries stay until they surface or are the majority, so that cancelling costs O(1). */
export class WaitQueue<Entry extends Waiting> {
  #heap: Entry[] = []
  #cancelled = 0

  /** How many wait. */
  get size(): number {
    return this.#heap.length - this.#cancelled
  }

  push(entry: Entry): void {
    this.#heap.push(entry)
    this.#rise(this.#heap.length - 1)
  }

  /** The first in order, which stays in the queue. */
  peek(): Entry | undefined {
    while (this.#heap[0]?.cancelled === true) {
      this.#removeFirst()
      this.#cancelled--
    }
    return this.#heap[0]
  }

  shift(): Entry | undefined {
    const first = this.peek()
    if (first !== undefined) this.#removeFirst()
    return first
  }

  cancel(entry: Entry): void {
    if (entry.cancelled) return
    entry.cancelled = true
    this.#cancelled++
    if (this.#cancelled * 2 > this.#heap.length) {
      // A sorted array is a heap.
      this.#heap = this.#heap.filter((other) => !other.cancelled).toSorted((a, b) => (isBefore(a, b) ? -1 : 1))
      this.#cancelled = 0
    }
  }

  *[Symbol.iterator](): Generator<Entry> {
    for (const entry of this.#heap) if (!entry.cancelled) yield entry
  }

  #removeFirst(): void {
    const last = this.#heap.pop()
    if (last === undefined || this.#heap.length === 0) return
    this.#heap[0] = last
    this.#sink()
  }

  #rise(from: number): void {
    const heap = this.#heap
    for (let index = from; index > 0;) {
      const parent = (index - 1) >> 1
      if (!isBefore(heap[index] as Entry, heap[parent] as Entry)) return
      swap(heap, index, parent)
      index = parent
    }
  }

  #sink(): void {
    const heap = this.#heap
    for (let index = 0; ;) {
      let first = index
      for (const child of [2 * index + 1, 2 * index + 2])
        if (child < heap.length && isBefore(heap[child] as Entry, heap[first] as Entry)) first = child
      if (first === index) return
      swap(heap, index, first)
      index = first
    }
  }
}

/** Compared, not subtracted: deadlines may be infinite. */
export function isBefore(a: Waiting, b: Waiting): boolean {
  return a.deadlineMs < b.deadlineMs || (a.deadlineMs === b.deadlineMs && a.sequence < b.sequence)
}

function swap(items: Waiting[], a: number, b: number): void {
  const item = items[a] as Waiting
  items[a] = items[b] as Waiting
  items[b] = item
}
