import { setImmediate } from 'node:timers/promises'

let last: Promise<void> = Promise.resolve()

/**
 * Resolves in a turn of the event loop that no other caller gets. Everything that waited for `setImmediate` itself would
 * go on in one and the same turn, and the connections would be looked at only after all of it.
 */
export function nextTurn(): Promise<void> {
  last = last.then(() => setImmediate())
  return last
}
