import { type Clock, within } from '../runtime/clock.js'

/** Maximum share of the time that reading takes. What is slow to read is read less often. */
const maxShare = 1 / 20
/** Longest wait for a reading, milliseconds. */
const patienceMs = 500

/**
 * Returns a function that reads something at most once per interval, however often it is called. It waits briefly for a
 * reading, and otherwise resolves to the previous value, as after a failed reading. It never rejects.
 *
 * @param first value before the first reading
 */
export function readNowAndThen<Value>(
  clock: Clock,
  everyMs: number,
  first: Value,
  read: () => Promise<Value>,
): () => Promise<Value> {
  let value = first
  let nextMs = -Infinity
  let reading: Promise<void> | undefined
  const readOnce = async () => {
    const startedMs = clock.monotonicMs()
    try {
      value = await read()
    } catch {
      // The previous value is still the best there is. Others report what is wrong.
    }
    const endedMs = clock.monotonicMs()
    nextMs = Math.max(startedMs + everyMs, endedMs + (endedMs - startedMs) / maxShare)
    reading = undefined
  }
  return async () => {
    if (clock.monotonicMs() < nextMs) return value
    reading ??= readOnce()
    await within(clock, patienceMs, reading, undefined)
    return value
  }
}
