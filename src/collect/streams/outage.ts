import { type ExchangeErrorKind, failureTraits } from '../../exchange/errors.js'

/** A failed request of a stream. */
interface FailedPoll {
  /** The target in words, different for each. Null for a whole list: it fails for all of its instruments. */
  readonly target: string | null
  /** Null for an error that is not the client's. */
  readonly kind: ExchangeErrorKind | null
  /** Why, without the request. */
  readonly message: string
  /** When it was requested, on the monotonic clock. */
  readonly startedMs: number
}

/** Failures in a row, since the last usable response. */
interface Run {
  readonly sinceMs: number
  lastMs: number
  message: string
  isPassing: boolean
  /** True after a failure that concerns more than its own target. */
  isOfAll: boolean
  readonly targets: Set<string>
}

/** Categories of a stream that bring nothing, with the newest reason. */
interface LastingOutage {
  readonly categories: readonly string[]
  readonly forMs: number
  readonly message: string
}

/**
 * A category counts as failing after this long without a usable response. An alert follows within half a minute, as
 * long as Prometheus takes to see it.
 */
const lastsAfterMs = 25_000
/** Failures that often end by themselves must also be this far apart. */
const passingSpanMs = 8_000
/** Number of targets that must fail, if each failure may concern its own target alone. */
const minTargets = 3

/**
 * Finds out if a category of a stream brings nothing at all. It does not matter why: a wrong address, a path that does
 * not exist, rows that nobody understands. A failure of one instrument is none of the stream.
 */
export class Outage {
  readonly #respondedMs = new Map<string, number>()
  readonly #runs = new Map<string, Run>()

  responded(category: string, nowMs: number): void {
    this.#respondedMs.set(category, nowMs)
    this.#runs.delete(category)
  }

  failed(category: string, { target, kind, message, startedMs }: FailedPoll, nowMs: number): void {
    const traits = kind === null ? null : failureTraits[kind]
    const run = this.#runs.get(category) ?? {
      sinceMs: Math.max(startedMs, this.#respondedMs.get(category) ?? -Infinity),
      lastMs: nowMs,
      message,
      isPassing: true,
      isOfAll: false,
      targets: new Set<string>(),
    }
    this.#runs.set(category, run)
    Object.assign(run, { lastMs: nowMs, message, isPassing: traits?.isPassing === true })
    run.isOfAll ||= target === null || (traits !== null && traits.isOfOne !== true)
    if (target !== null && run.targets.size < minTargets) run.targets.add(target)
  }

  /** Forgets categories that are no longer requested. */
  keepOnly(categories: ReadonlySet<string>): void {
    for (const category of this.#runs.keys()) if (!categories.has(category)) this.#runs.delete(category)
  }

  isLasting(category: string, nowMs: number): boolean {
    const run = this.#runs.get(category)
    return run !== undefined && lasts(run, nowMs)
  }

  /** Returns the categories that fail, and the reason of the first; null if all bring something. */
  lasting(nowMs: number): LastingOutage | null {
    const lasting = [...this.#runs]
      .filter(([, run]) => lasts(run, nowMs))
      .toSorted(([, a], [, b]) => a.sinceMs - b.sinceMs)
    const [, first] = lasting[0] ?? []
    if (first === undefined) return null
    return { categories: lasting.map(([category]) => category), forMs: nowMs - first.sinceMs, message: first.message }
  }
}

function lasts({ sinceMs, lastMs, isPassing, isOfAll, targets }: Run, nowMs: number): boolean {
  if (!isOfAll && targets.size < minTargets) return false
  return nowMs - sinceMs >= lastsAfterMs && (!isPassing || lastMs - sinceMs >= passingSpanMs)
}
