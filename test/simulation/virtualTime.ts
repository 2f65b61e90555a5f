import { type Ending, onAbort } from '../../src/runtime/abort.js'
import type { Clock } from '../../src/runtime/clock.js'
import { afterSleep } from '../support/afterSleep.js'
import { untilIdle } from './machine.js'

/** An event at a moment. Time stands still until its promise settles. */
export type Happening = () => void | Promise<void>

/** Runs something on a machine: at once, or when the machine wakes. */
export type WhenAwake = (happen: Happening) => void | Promise<void>

interface Timer {
  readonly atMs: number
  readonly order: number
  happen: Happening | null
}

/** Time that moves from one event to the next, whenever nothing is left to do. */
export class VirtualTime {
  nowMs = 0
  /** How many events have happened. */
  events = 0
  readonly #heap: Timer[] = []
  #order = 0

  /** How many events are still to happen. */
  get waiting(): number {
    return this.#heap.filter(({ happen }) => happen !== null).length
  }

  /** At `ms` from now; the result takes that back. Of two at the same moment the one that was asked for first comes first. */
  after(ms: number, happen: Happening): () => void {
    const timer: Timer = { atMs: this.nowMs + Math.max(0, ms), order: this.#order++, happen }
    this.#push(timer)
    return () => {
      timer.happen = null
    }
  }

  /** Runs all events up to a moment, or until `isOver`. */
  async runUntil(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await untilIdle()
    while (!isOver()) {
      const next = this.#heap[0]
      if (next === undefined || next.atMs > untilMs) break
      this.#pop()
      const { happen } = next
      if (happen === null) continue
      this.nowMs = next.atMs
      this.events++
      await happen()
      await untilIdle()
    }
    if (!isOver()) this.nowMs = Math.max(this.nowMs, untilMs)
  }

  #push(timer: Timer): void {
    const heap = this.#heap
    let place = heap.push(timer) - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (!isBefore(timer, heap[parent] as Timer)) break
      heap[place] = heap[parent] as Timer
      place = parent
    }
    heap[place] = timer
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Timer
    if (heap.length === 0) return
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Timer, heap[child] as Timer)) child++
      if (!isBefore(heap[child] as Timer, last)) break
      heap[place] = heap[child] as Timer
      place = child
    }
    heap[place] = last
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}

/** The clock of one machine: it may be wrong, run at a speed of its own, and end with its machine. */
export class MachineClock implements Clock {
  readonly #time: VirtualTime
  readonly #epochMs: number
  readonly #latenessMs: () => number
  /** How much of a second it gains in one. */
  drift = 0
  /** How far the wall clock was set. */
  skewMs = 0
  /** After a crash no sleep ends any more. */
  isDead = false
  /** Since when the machine is suspended; undefined while it runs. */
  #suspendedMs: number | null = null
  #sleptMs = 0
  readonly #waiting: Happening[] = []

  /** @param latenessMs how much later than asked for a sleep ends */
  constructor(time: VirtualTime, epochMs: number, latenessMs: () => number) {
    this.#time = time
    this.#epochMs = epochMs
    this.#latenessMs = latenessMs
  }

  now(): number {
    return Math.floor(this.#epochMs + this.skewMs + this.#time.nowMs * (1 + this.drift))
  }

  monotonicMs(): number {
    return (this.#time.nowMs - this.#slept()) * (1 + this.drift)
  }

  uptimeMs(): number {
    return this.#time.nowMs * (1 + this.drift)
  }

  get isSuspended(): boolean {
    return this.#suspendedMs !== null
  }

  suspend(): void {
    this.#suspendedMs ??= this.#time.nowMs
  }

  async wake(): Promise<void> {
    this.#sleptMs = this.#slept()
    this.#suspendedMs = null
    for (const happen of this.#waiting.splice(0)) if (!this.isDead) await happen()
  }

  readonly whenAwake: WhenAwake = (happen) => {
    if (this.#suspendedMs === null) return happen()
    this.#waiting.push(happen)
  }

  #slept(): number {
    return this.#sleptMs + (this.#suspendedMs === null ? 0 : this.#time.nowMs - this.#suspendedMs)
  }

  sleep(ms: number, signal?: Ending): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error)
      let sleptMs = this.#slept()
      let cancel = (): void => undefined
      const fire = () => {
        const owedMs = this.#slept() - sleptMs
        sleptMs += owedMs
        // Timers of a suspended machine go by its monotonic clock.
        if (owedMs > 0) cancel = this.#time.after(owedMs, () => this.whenAwake(fire))
        else {
          forget()
          if (!this.isDead) resolve()
        }
      }
      cancel = this.#time.after(ms / (1 + this.drift) + this.#latenessMs(), () => this.whenAwake(fire))
      const forget = onAbort(signal, () => {
        cancel()
        if (!this.isDead) reject(signal?.reason as Error)
      })
    })
  }

  after(ms: number, action: () => void): () => void {
    return afterSleep((time, signal) => this.sleep(time, signal))(ms, action)
  }
}
