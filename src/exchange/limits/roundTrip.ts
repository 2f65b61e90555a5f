/** So many responses of about the same time are waited for before the fastest of them counts as the ordinary one. */
const minResponses = 30
/** How quickly a fastest time that is never met again is given up: half of it in some 1,400 responses. */
const forgetting = 0.000_5

/** The time from departure to response without any delay on the way: the fastest of the recent ones. */
export class RoundTrip {
  readonly #jitterMs: number
  #fastestMs = Number.POSITIVE_INFINITY
  /** Of those that were about as fast as the first of them. */
  #count = 0
  #firstMs = Number.POSITIVE_INFINITY

  constructor(jitterMs: number) {
    this.#jitterMs = jitterMs
  }

  /** Too short rather than too long: 0 as long as little is known. */
  get fastestMs(): number {
    return this.#count < minResponses ? 0 : this.#fastestMs
  }

  observe(ms: number): void {
    // Responses that were all held up together say nothing of those that are not.
    if (ms < this.#firstMs - this.#jitterMs) {
      this.#count = 0
      this.#firstMs = ms
      this.#fastestMs = ms
    }
    if (ms <= this.#fastestMs + this.#jitterMs) this.#count++
    this.#fastestMs = Math.min(ms, this.#fastestMs + (ms - this.#fastestMs) * forgetting)
  }
}
