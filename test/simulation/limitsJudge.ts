import { type Operation, operations } from '../../src/market/operation.js'

/** Arrivals of one kind within the width of a window, oldest first. */
class Window {
  readonly #times: number[] = []
  readonly #widthMs: number

  constructor(widthMs: number) {
    this.#widthMs = widthMs
  }

  /** How many arrivals are in the half-open window that ends with this one. */
  arrive(atMs: number): number {
    const times = this.#times
    times.push(atMs)
    while ((times[0] ?? atMs) <= atMs - this.#widthMs) times.shift()
    return times.length
  }
}

export interface Limits {
  readonly perSecond: Readonly<Record<Operation, number>>
  readonly overallPerMinute: number
}

export interface TooMuch {
  readonly text: string
  readonly windowMs: number
}

/** Counts the arrivals from one address, independently of the simulator. Returns what exceeds a limit. */
export function createLimitsJudge({ perSecond, overallPerMinute }: Limits) {
  const windows = Object.fromEntries(operations.map((name) => [name, new Window(1_000)])) as Record<Operation, Window>
  const minute = new Window(60_000)
  const most: Partial<Record<Operation, number>> = {}
  return {
    most,
    arrive(operation: Operation, atMs: number): TooMuch | null {
      const inSecond = windows[operation].arrive(atMs)
      most[operation] = Math.max(most[operation] ?? 0, inSecond)
      const inMinute = minute.arrive(atMs)
      if (inSecond > perSecond[operation])
        return { text: `${inSecond} ${operation} requests within a second`, windowMs: 1_000 }
      if (inMinute > overallPerMinute) return { text: `${inMinute} requests within a minute`, windowMs: 60_000 }
      return null
    },
  }
}
