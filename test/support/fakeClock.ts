import { onAbort } from '../../src/runtime/abort.js'
import type { Clock } from '../../src/runtime/clock.js'
import { afterSleep } from './afterSleep.js'

interface Timer {
  readonly atMs: number
  readonly sequence: number
  readonly fire: () => void
}

export interface FakeClock extends Clock {
  /** Runs everything that is due up to `ms` from now, in order, and lets what it wakes run in between. */
  advance(ms: number): Promise<void>
  /** Calls `action` after `ms`, exactly; for what happens outside of the program. */
  at(ms: number, action: () => void): void
  readonly pendingSleeps: number
}

/**
 * A clock that a test moves. `latenessMs` says how much later than asked each sleep ends; a negative one is early, as
 * real timers are by a fraction of a millisecond.
 */
export function createFakeClock(latenessMs: () => number = () => 0, startMs = 1_000_000): FakeClock {
  let nowMs = startMs
  let sequence = 0
  let sleeps = 0
  let timers: Timer[] = []

  const schedule = (afterMs: number, fire: () => void): Timer => {
    const timer = { atMs: nowMs + Math.max(0, afterMs), sequence: sequence++, fire }
    timers.push(timer)
    return timer
  }
  const takeDue = (untilMs: number): Timer | undefined => {
    let first: Timer | undefined
    for (const timer of timers)
      if (
        timer.atMs <= untilMs &&
        (first === undefined ||
          timer.atMs < first.atMs ||
          (timer.atMs === first.atMs && timer.sequence < first.sequence))
      )
        first = timer
    if (first !== undefined) timers = timers.filter((timer) => timer !== first)
    return first
  }
  // A turn of the event loop: every promise that can settle by itself has done so by then.
  const settle = () =>
    new Promise<void>((resolve) => {
      setImmediate(resolve)
    })

  const sleep: Clock['sleep'] = (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error)
        return
      }
      sleeps++
      const timer = schedule(ms + latenessMs(), () => {
        sleeps--
        forget()
        resolve()
      })
      const forget = onAbort(signal, () => {
        sleeps--
        timers = timers.filter((other) => other !== timer)
        reject(signal?.reason as Error)
      })
    })

  return {
    now: () => 1_760_000_000_000 + nowMs,
    monotonicMs: () => nowMs,
    uptimeMs: () => nowMs,
    sleep,
    after: afterSleep(sleep),
    advance: async (ms) => {
      const untilMs = nowMs + ms
      await settle()
      for (let timer = takeDue(untilMs); timer !== undefined; timer = takeDue(untilMs)) {
        nowMs = Math.max(nowMs, timer.atMs)
        timer.fire()
        await settle()
      }
      nowMs = untilMs
    },
    at: (ms, action) => void schedule(ms, action),
    get pendingSleeps() {
      return sleeps
    },
  }
}
