import { byOperation, type Operation, operations } from '../../market/operation.js'
import { minuteMs } from '../../market/values.js'
import type { Departure } from './penalty.js'

/** What a refusal concerns: the address, one operation, or one instrument in an operation. */
type Scope = 'all' | 'operation' | 'instrument'

/** A refusal of an operation is its second one within this time. It is longer than the longest pause. */
const memoryMs = 15 * minuteMs
/**
 * A refusal of another operation within this time shows that the address is refused. It is the longest pause, and the
 * time until the full rate is reached again after it.
 */
const recentMs = 7 * minuteMs

/**
 * Judges what a refusal concerns. The first one of an operation, and the first two of an instrument, concern the
 * address: nothing shows otherwise. A further one is of its own if others that departed after the one before have had a
 * response.
 *
 * - Of an instrument: it has had no response since the first, and the operation has had some for others.
 * - Of an operation: other operations have had some since, and none of them was refused recently.
 *
 * If the address is refused while one of these is refused for itself, the next request of another kind shows it.
 */
export class Refusals {
  /** Times of the last refusal of each operation, and of the last response, by when its request departed. */
  readonly #refusedAtMs = byOperation(() => ({ ms: Number.NEGATIVE_INFINITY }))
  readonly #respondedMs = byOperation(() => ({ ms: Number.NEGATIVE_INFINITY }))
  /** Refusals of instruments that have had no response since: as a whole, and by operation. */
  readonly #instruments = new Map<string, { readonly count: number; readonly lastMs: number }>()

  /** Notes a response. Its request was about `instrument`, if about one. */
  responded({ operation, atMs }: Departure, instrument: string | undefined): void {
    const last = this.#respondedMs[operation]
    last.ms = Math.max(last.ms, atMs)
    for (const key of keysOf(operation, instrument)) this.#instruments.delete(key)
  }

  /** Notes a refusal, and returns what it concerns. */
  refused({ operation, atMs }: Departure, instrument: string | undefined, nowMs: number): Scope {
    const keys = keysOf(operation, instrument)
    const areKnown = keys.map((key) => {
      const { count, lastMs } = this.#instruments.get(key) ?? { count: 0, lastMs: atMs }
      if (lastMs <= atMs) this.#instruments.set(key, { count: count + 1, lastMs: nowMs })
      return count >= 2 && lastMs <= atMs && lastMs < this.#respondedMs[operation].ms
    })
    if (areKnown.includes(true)) return 'instrument'
    const before = this.#refusedAtMs[operation].ms
    this.#refusedAtMs[operation].ms = nowMs
    const others = operations.filter((other) => other !== operation)
    const areRefused = others.some((other) => nowMs - this.#refusedAtMs[other].ms < recentMs)
    const haveResponses = others.some((other) => this.#respondedMs[other].ms > before)
    const isOfOperation = nowMs - before < memoryMs && !areRefused && haveResponses
    return isOfOperation ? 'operation' : 'all'
  }
}

function keysOf(operation: Operation, instrument: string | undefined): string[] {
  return instrument === undefined ? [] : [instrument, `${operation} ${instrument}`]
}
