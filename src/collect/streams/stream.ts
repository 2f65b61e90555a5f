import type { Config } from '../../config/resolve.js'
import type { ExchangeClient, Page } from '../../exchange/client.js'
import type { RequestOptions } from '../../exchange/sender.js'
import type { Batch } from '../../ledger/batch.js'
import type { Category, InstrumentKey } from '../../market/category.js'
import { byStream, type StreamName } from '../../market/stream.js'
import type { LeftOut, PlanInstrument, Select } from '../universe/planUniverse.js'
import type { Universe } from '../universe/universe.js'
import type { MachineMs } from '../../market/values.js'
import { type ExchangeErrorKind, failureTraits } from '../../exchange/errors.js'
import { EmptyPages, type PageSize } from './emptyPages.js'

/** Bytes that a row takes with its index, before and after compression. */
export interface RowBytes {
  readonly plain: number
  readonly compressed: number
}

/** How a stream is requested, and what its responses teach. */
export interface Requested<Target, Row> {
  readonly name: StreamName
  fetch(client: ExchangeClient, target: Target, options: RequestOptions): Promise<Page<Row>>
  /** Returns false for a row that is no part of the market. By default all rows are. */
  keeps?(universe: Universe, row: Row): boolean
  /** Returns the rows of a list that are not beyond a bound. By default all are. */
  bounded?(universe: Universe, target: Target, rows: readonly Row[]): readonly Row[]
  /** Updates the recorder's own knowledge of the market from a response. */
  learn?(universe: Universe, batch: Batch<Target, Row>): void
  /** Text to compare two responses by; null when a response is empty. Only for streams requested in a cycle. */
  contentOf?(rows: readonly Row[]): string | null
}

/** A stream of lists: each response covers a whole category, or all of them. Requested at times of the wall clock. */
export interface ListStream<Target, Row> extends Requested<Target, Row> {
  readonly kind: 'lists'
  /** Cron expression of six fields. */
  schedule(config: Config): string
  /** Returns the categories to request; a single null if one list has all of them. */
  lists(config: Config): readonly (Category | null)[]
  /** Returns how many rows a response of these instruments stores; 0 if only changes are stored. */
  rowsOf(instruments: readonly PlanInstrument[]): number
  /** Restricts the instruments that are counted as covered. */
  readonly covers?: (instrument: PlanInstrument) => boolean
  readonly bytes: RowBytes
  /** Requests per second beyond those of the schedule. */
  extraPerSecond?(config: Config): number
}

/** Decides when an instrument of a stream is requested. */
export type Trigger =
  /** A cycle of fixed length in which every target has a place of its own. All places may lie in its first part. */
  | { readonly kind: 'cycle'; readonly everyMs: number; readonly firstPart?: number }
  /** The close of each target's candle. `shortestMs` is the shortest time between two closes. */
  | { readonly kind: 'candle-close'; readonly settleMs: number; readonly shortestMs: number }
  /** The need to see a target's fills again before more have happened than one response shows. */
  | {
      readonly kind: 'overlap'
      readonly minPollMs: number
      readonly maxPollMs: number
      /** Largest rate that the limits allow, in requests a second. */
      readonly allowedPerSecond: number
    }

/** A stream of instruments, each requested by itself. */
export interface InstrumentStream<Target extends InstrumentKey, Row> extends Requested<Target, Row> {
  readonly kind: 'instruments'
  trigger(config: Config): Trigger
  readonly select: (config: Config) => Select
  /** Restricts the instruments of the selection further. */
  readonly covers?: (instrument: PlanInstrument) => boolean
  /** Makes the targets of instruments that are covered. */
  targetsOf(config: Config, keys: readonly InstrumentKey[], universe: Universe): readonly Target[]
  /** Requests per second that an instrument needs. */
  costOf(config: Config): (instrument: PlanInstrument) => number
  /** Rows a day that an instrument brings. */
  rowsPerDayOf(config: Config): (instrument: PlanInstrument) => number
  bytes(config: Config): RowBytes
  /**
   * Largest number of rows in a response, for a stream whose instruments always fit. If there are too few requests for
   * all, the schedule decides which instruments get them.
   */
  readonly sharesRequests?: number
}

/** Present state of a stream, and its counts since the process started. */
export interface StreamStats {
  /** Instruments, series or lists that the stream covers now. */
  targets: number
  /** Targets that are requested less often, because their responses bring nothing. */
  quietTargets: number
  /** Overdue targets, among those that are requested at the usual interval. */
  lateTargets: number
  /** Instruments that the stream could cover but does not, by reason. */
  leftOut: LeftOut
  responses: number
  failures: number
  /** Polls skipped because the previous one was still under way. */
  skippedPolls: number
  rowsWritten: number
  rowsUnchanged: number
  rowsRejected: number
  /** Rows that were lost because neither database nor spool could take them. */
  rowsDropped: number
  gapsFound: number
  lastStoredAt: MachineMs | null
  /** Last time at which the stream had nothing to request; null if it never had. */
  lastIdleAt: MachineMs | null
  readonly outage: Outage
}

export type CollectorStats = Readonly<Record<StreamName, StreamStats>>

export function createStats(): CollectorStats {
  return byStream(() => ({
    targets: 0,
    quietTargets: 0,
    lateTargets: 0,
    leftOut: { kind: 0, turnover: 0, number: 0, limits: 0 },
    responses: 0,
    failures: 0,
    skippedPolls: 0,
    rowsWritten: 0,
    rowsUnchanged: 0,
    rowsRejected: 0,
    rowsDropped: 0,
    gapsFound: 0,
    lastStoredAt: null,
    lastIdleAt: null,
    outage: new Outage(),
  }))
}

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
 * not exist, rows that nobody understands, responses that are all empty. A failure of one instrument is none of the
 * stream.
 */
export class Outage {
  readonly #respondedMs = new Map<string, number>()
  readonly #runs = new Map<string, Run>()
  readonly #pages = new Map<string, EmptyPages>()

  /** Takes a usable response. `size` is null where an empty one is as good as one with rows. */
  responded(category: string, nowMs: number, size: PageSize | null = null): void {
    this.#respondedMs.set(category, nowMs)
    this.#runs.delete(category)
    if (size === null) return
    const pages = this.#pages.get(category) ?? new EmptyPages()
    this.#pages.set(category, pages)
    pages.took(size, nowMs)
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
    for (const known of [this.#runs, this.#pages])
      for (const category of known.keys()) if (!categories.has(category)) known.delete(category)
  }

  /** Returns why a category fails; null if it brings something. */
  reasonOf(category: string, nowMs: number): string | null {
    return this.#lasting(nowMs).find((one) => one.category === category)?.message ?? null
  }

  /** Returns the categories that fail, and the reason of the first; null if all bring something. */
  lasting(nowMs: number): LastingOutage | null {
    const lasting = this.#lasting(nowMs).toSorted((a, b) => a.sinceMs - b.sinceMs)
    const [first] = lasting
    if (first === undefined) return null
    const { sinceMs, message } = first
    return { categories: [...new Set(lasting.map(({ category }) => category))], forMs: nowMs - sinceMs, message }
  }

  #lasting(nowMs: number) {
    const failing = [...this.#runs].filter(([, run]) => lasts(run, nowMs))
    const empty = [...this.#pages].flatMap(([category, { proven }]) =>
      proven === null || nowMs - proven.sinceMs < lastsAfterMs ? [] : [{ category, ...proven }],
    )
    return [...failing.map(([category, { sinceMs, message }]) => ({ category, sinceMs, message })), ...empty]
  }
}

function lasts({ sinceMs, lastMs, isPassing, isOfAll, targets }: Run, nowMs: number): boolean {
  if (!isOfAll && targets.size < minTargets) return false
  return nowMs - sinceMs >= lastsAfterMs && (!isPassing || lastMs - sinceMs >= passingSpanMs)
}
