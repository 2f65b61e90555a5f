import { setImmediate } from 'node:timers/promises'
import { workedMs } from '../runtime/clock.js'

/** Longest time in milliseconds that a computation may hold the event loop before other requests get a turn. */
const sliceMs = 1

/** Returns a function for a long computation to call at each step: after a slice of work, others get a turn. */
export function takeTurns(): () => Promise<void> | undefined {
  let startedMs = workedMs()
  return () => {
    if (workedMs() - startedMs < sliceMs) return undefined
    return setImmediate().then(() => {
      startedMs = workedMs()
    })
  }
}
