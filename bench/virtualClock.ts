import { setImmediate as nextTurn } from 'node:timers/promises'
import { onAbort } from '../src/runtime/abort.js'
import type { Clock } from '../src/runtime/clock.js'
import { afterSleep } from '../test/support/afterSleep.js'

export interface VirtualClock extends Clock {
  /** Lets time pass: everything that falls due on the way happens in its order. */
  advanceTo(ms: number): Promise<void>
}

/** A clock on which an hour takes as long as what happens in it takes to compute. */
export function createVirtualClock(startsAt: number): VirtualClock {
  let nowMs = 0
  let sequence = 0
  let timers: { readonly atMs: number; readonly order: number; readonly fire: () => void }[] = []
  const sleep: Clock['sleep'] = (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error)
      const timer = {
        atMs: nowMs + Math.max(0, ms),
        order: sequence++,
        fire: () => {
          forget()
          resolve()
        },
      }
      const forget = onAbort(signal, () => {
        timers = timers.filter((other) => other !== timer)
        reject(signal?.reason as Error)
      })
      timers.push(timer)
    })
  return {
    now: () => startsAt + nowMs,
    monotonicMs: () => nowMs,
    sleep,
    after: afterSleep(sleep),
    async advanceTo(ms) {
      for (;;) {
        await nextTurn()
        let next: (typeof timers)[number] | undefined
        for (const timer of timers) {
          if (next === undefined || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order))
            next = timer
        }
        if (next === undefined || next.atMs > ms) break
        const due = next
        timers = timers.filter((timer) => timer !== due)
        nowMs = Math.max(nowMs, due.atMs)
        due.fire()
      }
      nowMs = ms
    },
  }
}
