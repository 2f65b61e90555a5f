import { minuteMs } from '../../market/values.js'

/** A series that is late for so long, while others are stored, is given up. A lock or a conversion may last minutes. */
const patienceMs = 10 * minuteMs

interface Run {
  /** Number of batches that were stored until the last one was late. */
  readonly stored: number
  /** Time since which the series is late while others are stored; undefined while all are late. */
  aloneSinceMs: number | undefined
}

/** Knows which series of a stream are late: the statement that stores their batch takes longer than it may. */
export class SlowSeries {
  readonly #runs = new Map<string, Run>()
  #count = 0

  /** Number of batches that were stored. */
  get count(): number {
    return this.#count
  }

  has(key: string): boolean {
    return this.#runs.has(key)
  }

  /** @param remainsSlow true if the batch was given up */
  stored(key: string, remainsSlow: boolean): void {
    this.#count++
    if (!remainsSlow) this.#runs.delete(key)
  }

  /**
   * Notes a late batch. Returns true if the series is late alone: others were stored since its call began, or since its
   * last late one. That holds until another series is late without such evidence.
   *
   * @param storedBefore number of batches that were stored before its call
   */
  wasLate(key: string, storedBefore: number, nowMs: number): boolean {
    const { stored = storedBefore, aloneSinceMs = nowMs } = this.#runs.get(key) ?? {}
    const isAlone = aloneSinceMs < nowMs || stored < this.#count
    if (!isAlone) for (const run of this.#runs.values()) run.aloneSinceMs = undefined
    this.#runs.set(key, { stored: this.#count, aloneSinceMs: isAlone ? aloneSinceMs : undefined })
    return isAlone
  }

  isGivenUp(key: string, nowMs: number): boolean {
    const { aloneSinceMs = Infinity } = this.#runs.get(key) ?? {}
    return nowMs - aloneSinceMs >= patienceMs
  }
}
