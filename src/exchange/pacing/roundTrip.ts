/** So many responses are waited for before the fastest of them counts as the ordinary one. */
const minResponses = 10
/** How quickly a fastest time that is never met again is given up: half of it in some 1,400 responses. */
const forgetting = 0.000_5

/** The time from departure to response without any delay on the way: the fastest of the recent ones. */
export class RoundTrip {
  #fastestMs = Number.POSITIVE_INFINITY
  #count = 0

  /** Too short rather than too long: 0 as long as little is known. */
  get fastestMs(): number {
    return this.#count < minResponses ? 0 : this.#fastestMs
  }

  observe(ms: number): void {
    this.#count++
    const forgotten = this.#count === 1 ? ms : this.#fastestMs + (ms - this.#fastestMs) * forgetting
    this.#fastestMs = Math.min(ms, forgotten)
  }
}
