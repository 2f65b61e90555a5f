import { byOperation, type Operation, operations } from '../../market/operation.js'
import type { Departure } from './penalty.js'

/** The classes of requests, from the most to the least urgent. */
const priorities = ['live', 'repair', 'backfill'] as const
export type Priority = (typeof priorities)[number]

/** The requests of a class that wait. */
interface WaitingRequests {
  readonly count: number
  readonly oldestWaitMs: number
  /** Largest time by which a request has missed its deadline while it waited; 0 if all are in time. */
  readonly overdueMs: number
}

/** A request that waits for its place within the limits. */
export interface Waiting {
  readonly operation: Operation
  readonly target: string | undefined
  readonly deadlineMs: number
  /** Number of the request in the order of arrival. */
  readonly sequence: number
  readonly enqueuedAtMs: number
  readonly depart: (departure: Departure) => void
}

/** Holds the requests that wait, in a queue for each class and operation. */
export class RequestQueues {
  readonly #queues: Readonly<Record<Priority, Readonly<Record<Operation, WaitQueue>>>>

  constructor() {
    const queues = () => byOperation(() => new WaitQueue())
    this.#queues = { live: queues(), repair: queues(), backfill: queues() }
  }

  queue(priority: Priority, operation: Operation): WaitQueue {
    return this.#queues[priority][operation]
  }

  /** Removes and returns the most urgent request of all operations that are ready, and of all that are wanted. */
  shift(isReady: (operation: Operation) => boolean, isWanted = (_: Waiting) => true): Waiting | undefined {
    for (const priority of priorities) {
      let first: Waiting | undefined
      for (const operation of operations) {
        const queue = this.queue(priority, operation)
        // When an operation is ready takes longer to tell than that nothing waits for it.
        const request = queue.first !== undefined && isReady(operation) ? queue.find(isWanted) : undefined
        if (request === undefined) continue
        if (first === undefined || isBefore(request, first)) first = request
      }
      if (first === undefined) continue
      this.queue(priority, first.operation).remove(first)
      return first
    }
    return undefined
  }

  /** Returns the operations with waiting requests. */
  wanted(): Operation[] {
    return operations.filter((operation) =>
      priorities.some((priority) => this.queue(priority, operation).first !== undefined),
    )
  }

  /** Counts the requests of a class that wait for one of these operations. */
  stats(priority: Priority, counted: readonly Operation[], nowMs: number): WaitingRequests {
    let count = 0
    let oldestMs = nowMs
    let overdueMs = 0
    for (const operation of counted)
      for (const { enqueuedAtMs, deadlineMs } of this.queue(priority, operation)) {
        count++
        oldestMs = Math.min(oldestMs, enqueuedAtMs)
        overdueMs = Math.max(overdueMs, nowMs - Math.max(enqueuedAtMs, deadlineMs))
      }
    return { count, oldestWaitMs: nowMs - oldestMs, overdueMs }
  }
}

/** Requests ordered by deadline, and equal deadlines by arrival. Places are found by bisection: thousands may wait. */
class WaitQueue {
  readonly #requests: Waiting[] = []

  get first(): Waiting | undefined {
    return this.#requests[0]
  }

  push(request: Waiting): void {
    this.#requests.splice(this.#indexOf(request), 0, request)
  }

  find(isWanted: (request: Waiting) => boolean): Waiting | undefined {
    return this.#requests.find(isWanted)
  }

  /** Removes a request if it is still here. */
  remove(request: Waiting): void {
    const index = this.#indexOf(request)
    if (this.#requests[index] === request) this.#requests.splice(index, 1)
  }

  [Symbol.iterator](): Iterator<Waiting> {
    return this.#requests.values()
  }

  /** Returns the place of a request, or the place where it belongs. */
  #indexOf(request: Waiting): number {
    let low = 0
    let high = this.#requests.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (isBefore(this.#requests[middle] as Waiting, request)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Compares deadlines without subtracting them, because they may be infinite. */
function isBefore(a: Waiting, b: Waiting): boolean {
  return a.deadlineMs < b.deadlineMs || (a.deadlineMs === b.deadlineMs && a.sequence < b.sequence)
}
