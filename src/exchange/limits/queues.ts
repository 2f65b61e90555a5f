import { byOperation, type Operation, operations } from '../../market/stream.js'

/** The classes of requests, from the most to the least urgent. */
export const priorities = ['live', 'repair', 'backfill'] as const
export type Priority = (typeof priorities)[number]

/** The requests of a class that wait. */
export interface WaitingRequests {
  readonly count: number
  readonly oldestWaitMs: number
  /** Largest time by which a request has missed its deadline while it waited; 0 if all are in time. */
  readonly overdueMs: number
}

/** Holds the requests that wait, in a queue for each class and operation. */
export class RequestQueues<Entry extends Waiting> {
  readonly #queues: Readonly<Record<Priority, Readonly<Record<Operation, WaitQueue<Entry>>>>>

  constructor() {
    const queues = () => byOperation(() => new WaitQueue<Entry>())
    this.#queues = { live: queues(), repair: queues(), backfill: queues() }
  }

  queue(priority: Priority, operation: Operation): WaitQueue<Entry> {
    return this.#queues[priority][operation]
  }

  /** Removes and returns the most urgent request of all operations that are ready. */
  shift(isReady: (operation: Operation) => boolean): Entry | undefined {
    for (const priority of priorities) {
      let first: { readonly entry: Entry; readonly operation: Operation } | undefined
      for (const operation of operations) {
        const entry = this.queue(priority, operation).peek()
        if (entry === undefined || !isReady(operation)) continue
        if (first === undefined || isBefore(entry, first.entry)) first = { entry, operation }
      }
      if (first !== undefined) return this.queue(priority, first.operation).shift()
    }
    return undefined
  }

  isEmpty(): boolean {
    for (const priority of priorities)
      for (const operation of operations) if (this.#queues[priority][operation].size > 0) return false
    return true
  }

  /** Returns the operations with waiting requests. */
  wanted(): Operation[] {
    return operations.filter((operation) => priorities.some((priority) => this.queue(priority, operation).size > 0))
  }

  stats(priority: Priority, nowMs: number): WaitingRequests {
    let count = 0
    let oldestMs = nowMs
    let overdueMs = 0
    for (const operation of operations)
      for (const { enqueuedAtMs, deadlineMs } of this.queue(priority, operation)) {
        count++
        oldestMs = Math.min(oldestMs, enqueuedAtMs)
        overdueMs = Math.max(overdueMs, nowMs - Math.max(enqueuedAtMs, deadlineMs))
      }
    return { count, oldestWaitMs: nowMs - oldestMs, overdueMs }
  }
}

/** An entry of a queue. Entries are ordered by deadline, and equal deadlines by arrival. */
export interface Waiting {
  readonly deadlineMs: number
  readonly sequence: number
  readonly enqueuedAtMs: number
  /** Set on abort: the queue skips the request when its turn comes. */
  cancelled: boolean
}

/** A binary heap. Cancelled entries stay until they surface or are the majority, so that cancelling is cheap. */
class WaitQueue<Entry extends Waiting> {
  #heap: Entry[] = []
  #cancelled = 0

  /** Number of entries that are not cancelled. */
  get size(): number {
    return this.#heap.length - this.#cancelled
  }

  push(entry: Entry): void {
    this.#heap.push(entry)
    this.#rise(this.#heap.length - 1)
  }

  /** Returns the first entry, which stays in the queue. */
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
      // A sorted array is a valid heap.
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

/** Compares deadlines without subtracting them, because they may be infinite. */
function isBefore(a: Waiting, b: Waiting): boolean {
  return a.deadlineMs < b.deadlineMs || (a.deadlineMs === b.deadlineMs && a.sequence < b.sequence)
}

function swap(items: Waiting[], a: number, b: number): void {
  const item = items[a] as Waiting
  items[a] = items[b] as Waiting
  items[b] = item
}
