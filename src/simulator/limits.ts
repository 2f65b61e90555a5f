import { byOperation, type Operation, specifiedPerSecond } from '../market/operation.js'

export interface LimitOptions {
  readonly perSecond: Readonly<Record<Operation, number>>
  readonly perMinute: number
  /** How long an address is refused after it exceeded the limit per minute. */
  readonly blockMs: number
  /** If false, requests are counted and none is refused. */
  readonly enforce: boolean
}

/** Activity of one address. Its highest rates are over every strict window, not over calendar seconds. */
interface SourceReport {
  readonly operations: Readonly<Record<Operation, OperationReport>>
  readonly overall: OverallReport
}
interface OperationReport {
  readonly requests: number
  readonly rejected: number
  readonly highestPerSecond: number
}
interface OverallReport extends OperationReport {
  readonly highestPerMinute: number
  readonly blocks: number
}
/** Activity of every source address, by address. */
export type Report = Readonly<Record<string, SourceReport>>

interface Admission {
  readonly accepted: boolean
  /** Requests left in the operation's budget for the last second. */
  readonly remaining: number
}

/** Counts arrivals in every half-open window of one width. Arrivals may come slightly out of order. */
export class ArrivalWindow {
  private times: number[] = []
  constructor(private readonly widthMs: number) {}

  /** Adds an arrival; returns the highest number of arrivals in any window that holds it. */
  add(at: number): number {
    const { times, widthMs } = this
    let position = times.length
    while (position > 0 && (times[position - 1] ?? 0) > at) position--
    times.splice(position, 0, at)
    let highest = 0
    for (let last = position; last < times.length && (times[last] ?? 0) - at < widthMs; last++) {
      highest = Math.max(highest, last + 1 - this.firstWithin(times[last] ?? 0))
    }
    this.forget()
    return highest
  }

  /** Returns the index of the first arrival in the window that ends with `end`. Its beginning does not belong to it. */
  private firstWithin(end: number): number {
    let low = 0
    let high = this.times.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (end - (this.times[middle] ?? 0) < this.widthMs) high = middle
      else low = middle + 1
    }
    return low
  }

  private forget(): void {
    const { times, widthMs } = this
    // Times are kept for three widths, because late arrivals count in old windows. Dropping blocks saves copies.
    const horizon = (times.at(-1) ?? 0) - 3 * widthMs
    if ((times[1_024] ?? Number.POSITIVE_INFINITY) < horizon) times.splice(0, this.firstWithin(horizon + widthMs))
  }
}

class Meter {
  requests = 0
  rejected = 0
  highest = 0
  private readonly window: ArrivalWindow
  constructor(widthMs: number) {
    this.window = new ArrivalWindow(widthMs)
  }
  arrive(at: number): number {
    const count = this.window.add(at)
    this.requests++
    this.highest = Math.max(this.highest, count)
    return count
  }
}

class Source {
  readonly operations = byOperation(() => new Meter(1_000))
  readonly second = new Meter(1_000)
  readonly minute = new Meter(60_000)
  blockedUntil = Number.NEGATIVE_INFINITY
  blocks = 0
}

/** Applies the limits to each source address as the service does: by arrival, and with rejected requests. */
export class Limiter {
  private readonly sources = new Map<string, Source>()
  constructor(private readonly options: LimitOptions) {}

  /** Counts a request that arrived at `at` (monotonic ms) and says whether the service accepts it. */
  admit(address: string, operation: Operation, at: number): Admission {
    const source = this.sourceOf(address)
    const { perSecond, perMinute, blockMs, enforce } = this.options
    const limit = perSecond[operation]
    const inSecond = source.operations[operation].arrive(at)
    source.second.arrive(at)
    const inMinute = source.minute.arrive(at)
    const isBlocked = at < source.blockedUntil
    if (!isBlocked && inMinute > perMinute) {
      source.blocks++
      source.blockedUntil = at + blockMs
    }
    const isOver = isBlocked || inMinute > perMinute || inSecond > limit
    if (isOver) {
      source.operations[operation].rejected++
      source.second.rejected++
    }
    // The header was seen to start at 19 where 20 are allowed, and at 10 where 10 are.
    const remaining = Math.max(0, limit - inSecond + (specifiedPerSecond[operation] === 10 ? 1 : 0))
    return { accepted: !enforce || !isOver, remaining }
  }

  /** Refuses all requests of an address for the length of a block. */
  block(address: string, at: number): void {
    const source = this.sourceOf(address)
    source.blocks++
    source.blockedUntil = at + this.options.blockMs
  }

  report(): Report {
    const report: Record<string, SourceReport> = {}
    for (const [address, source] of this.sources) {
      report[address] = {
        operations: byOperation((name) => {
          const { requests, rejected, highest } = source.operations[name]
          return { requests, rejected, highestPerSecond: highest }
        }),
        overall: {
          requests: source.second.requests,
          rejected: source.second.rejected,
          highestPerSecond: source.second.highest,
          highestPerMinute: source.minute.highest,
          blocks: source.blocks,
        },
      }
    }
    return report
  }

  private sourceOf(address: string): Source {
    let source = this.sources.get(address)
    if (!source) {
      source = new Source()
      this.sources.set(address, source)
    }
    return source
  }
}
