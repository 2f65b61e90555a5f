import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Processor time that this thread has used, in milliseconds. Neither the other programs of a busy machine are in it, nor the
 * threads that inflate, compile and collect garbage beside this one: none of them keeps the event loop from its next turn.
 */
function threadCpuMs(): number {
  // Linux alone tells it of a thread in Node 20. Nanoseconds on the processor come first.
  const text = readSchedule()
  if (text !== undefined) return Number(text.slice(0, text.indexOf(' '))) / 1e6
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function readSchedule(): string | undefined {
  try {
    return readFileSync('/proc/thread-self/schedstat', 'latin1')
  } catch {
    return undefined
  }
}

setFlagsFromString('--expose-gc')
/** Collects garbage, so that a measurement does not include the collection of earlier garbage. */
export const collectGarbage = runInNewContext('gc') as (options: { readonly type: 'minor' | 'major' }) => void

export interface Metered<T> {
  readonly result: T
  /** The longest time between two turns of the event loop. */
  readonly longestMs: number
}

/** Measures the turns of the event loop while `work` goes on: one at a time, because the loop comes here in each of them. */
export async function metered<T>(work: () => Promise<T>): Promise<Metered<T>> {
  let longestMs = 0
  let lastMs = threadCpuMs()
  let isOver = false
  const mark = () => {
    const nowMs = threadCpuMs()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
  }
  const eachTurn = () => {
    if (isOver) return
    mark()
    setImmediate(eachTurn)
  }
  setImmediate(eachTurn)
  try {
    const result = await work()
    mark()
    return { result, longestMs }
  } finally {
    isOver = true
  }
}
