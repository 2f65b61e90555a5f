/** Knows which series of a stream are late: the statement that stores their batch takes longer than it may. */
export class SlowSeries {
  /** By series, the number of batches that were stored until its last one was late. */
  readonly #late = new Map<string, number>()
  #count = 0

  /** Number of batches that were stored. */
  get count(): number {
    return this.#count
  }

  has(key: string): boolean {
    return this.#late.has(key)
  }

  stored(key: string): void {
    this.#count++
    this.#late.delete(key)
  }

  /**
   * Notes a late batch. Returns true if the series is late alone: others were stored since its call began, or since its
   * last late one.
   *
   * @param storedBefore number of batches that were stored before its call
   */
  wasLate(key: string, storedBefore: number): boolean {
    const isAlone = (this.#late.get(key) ?? storedBefore) < this.#count
    this.#late.set(key, this.#count)
    return isAlone
  }
}
