/** Size of a usable response. */
export interface PageSize {
  /** The target in words, different for each. */
  readonly target: string
  /** True if the response is for all instruments of a category. */
  readonly isList: boolean
  readonly rows: number
}

/** Empty responses in a row, since the last one with rows. */
interface Run {
  readonly sinceMs: number
  readonly isOfList: boolean
  responses: number
  readonly targets: Set<string>
}

/** After so many responses with rows, an empty one is unusual for its target. */
const usualAfter = 5
/** A list has to be short twice. Of instruments, so many responses of so many targets have to be empty. */
const needed = { ofList: 2, ofInstruments: 10, targets: 3 }

/** A list that is short for so long is taken to have lost its rows for good. An alert has been seen by then. */
const shortForGoodMs = 600_000

/**
 * Finds out if all responses for a category have become empty. One quiet instrument tells nothing, so that only targets
 * count whose responses had rows each time before. A list with less than half of its rows counts as empty, too.
 */
export class EmptyPages {
  readonly #full = new Map<string, { readonly times: number; readonly rows: number }>()
  #run: Run | null = null

  took({ target, isList, rows }: PageSize, nowMs: number): void {
    const before = this.#full.get(target) ?? { times: 0, rows: 0 }
    const isForGood = nowMs - (this.#run?.sinceMs ?? nowMs) >= shortForGoodMs
    if (rows > 0 && (!isList || isForGood || rows >= before.rows / 2)) {
      // Those that were empty meanwhile have to show anew that they usually have rows.
      for (const one of this.#run?.targets ?? []) this.#full.delete(one)
      this.#run = null
      this.#full.set(target, { times: (this.#full.get(target)?.times ?? 0) + 1, rows })
    } else if (before.times < usualAfter) this.#full.delete(target)
    else {
      this.#run ??= { sinceMs: nowMs, isOfList: isList, responses: 0, targets: new Set() }
      this.#run.responses += 1
      this.#run.targets.add(target)
    }
  }

  /** Returns since when all responses have been empty, and the reason in words; null while that is not certain. */
  get proven(): { readonly sinceMs: number; readonly message: string } | null {
    if (this.#run === null) return null
    const { sinceMs, isOfList, responses, targets } = this.#run
    const isProven = isOfList
      ? responses >= needed.ofList
      : responses >= needed.ofInstruments && targets.size >= needed.targets
    if (!isProven) return null
    const what = isOfList
      ? 'the list has lost more than half of its rows'
      : 'all responses are empty, and had rows before'
    return { sinceMs, message: `${what}; wait for the service, or see what is in between` }
  }
}
