import type { TimeMs } from '../../market/values.js'

/** Rates are averaged over these times: those of a sweep, a burst, a busy minute and the usual flow. */
const memoriesMs = [400, 2_000, 20_000, 300_000] as const
const minuteIndex = 2
const usualIndex = 3
/** Share of the difference between a faster average and the next slower one that is expected to last at first. */
const lasting = [0.35, 0.4, 0.7] as const

/** Average rates of fills, in fills per millisecond. Fast ones follow a burst, slow ones the usual flow. */
export class FillRates {
  readonly #averages = [0, 0, 0, 0]

  get usual(): number {
    return this.#averages[usualIndex] as number
  }

  get ofMinute(): number {
    return this.#averages[minuteIndex] as number
  }

  set(rate: number): void {
    this.#averages.fill(rate)
  }

  copy(other: FillRates): void {
    for (let index = 0; index < memoriesMs.length; index++) this.#averages[index] = other.#averages[index] as number
  }

  /** Takes a constant rate over the next `spanMs`. */
  addSpan(rate: number, spanMs: number): void {
    for (const [index, memoryMs] of memoriesMs.entries()) {
      const kept = Math.exp(-spanMs / memoryMs)
      this.#averages[index] = rate * (1 - kept) + (this.#averages[index] as number) * kept
    }
  }

  /** Takes the first `count` fills of a page, which happened in the `spanMs` before `at`. */
  addFills(newestFirst: readonly { readonly ts: TimeMs }[], count: number, at: TimeMs, spanMs: number): void {
    for (const [index, memoryMs] of memoriesMs.entries()) {
      let sum = 0
      for (let fill = 0; fill < count; fill++)
        sum += Math.exp(Math.min(0, (newestFirst[fill] as { readonly ts: TimeMs }).ts - at) / memoryMs)
      this.#averages[index] = sum / memoryMs + (this.#averages[index] as number) * Math.exp(-spanMs / memoryMs)
    }
  }

  /** Number of fills expected in the next `spanMs`. A rate above the usual one is expected to fade. */
  ahead(spanMs: number): number {
    let count = this.usual * spanMs
    // This runs for every instrument at each choice, so it avoids iterators.
    for (let index = 0; index < lasting.length; index++) {
      const memoryMs = memoriesMs[index] as number
      const beyond = (this.#averages[index] as number) - (this.#averages[index + 1] as number)
      count += (lasting[index] as number) * beyond * memoryMs * -Math.expm1(-spanMs / memoryMs)
    }
    return Math.max(0, count)
  }
}
