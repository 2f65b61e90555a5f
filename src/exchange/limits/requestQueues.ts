import { type Operation, operations } from '../../market/stream.js'
import { isBefore, type Waiting, WaitQueue } from './waitQueue.js'

/** From the most to the least urgent. */
export const priorities = ['live', 'repair', 'backfill'] as const
export type Priority = (typeof priorities)[number]

/** The requests of a class that wait. */
export interface WaitingRequests {
  readonly count: number
  readonly oldestWaitMs: number
  /** By how much the latest of them has missed its deadline while it waited; 0 when all are in time. */
  readonly overdueMs: number
}

/** The requests that wait: a queue for each class and operation. */
export class RequestQueues<Entry extends Waiting> {
  readonly #queues: Readonly<Record<Priority, Readonly<Record<Operation, WaitQueue<Entry>>>>>

  constructor() {
    const queues = () => forEachOperation(() => new WaitQueue<Entry>())
    this.#queues = { live: queues(), repair: queues(), backfill: queues() }
  }

  queue(priority: Priority, operation: Operation): WaitQueue<Entry> {
    return this.#queues[priority][operation]
  }

  /** Takes the most urgent one among the operations that are ready. */
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

  /** The operations that somebody waits for. */
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

export function forEachOperation<T>(make: (operation: Operation) => T): Record<Operation, T> {
  return Object.fromEntries(operations.map((operation) => [operation, make(operation)])) as Record<Operation, T>
}
