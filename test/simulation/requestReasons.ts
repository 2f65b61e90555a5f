import { Sender } from '../../src/exchange/sender.js'
import { SliceRunner } from '../../src/history/runSlice.js'
import type { Slice } from '../../src/ledger/slices.js'
import { streamText } from '../../src/db/series.js'
import { type Operation, operations, specifiedPerSecond } from '../../src/market/operation.js'
import { dayMs, secondsPerDay, sum } from '../../src/market/values.js'
import type { WorldPlan } from './worldPlan.js'

const reasons = ['live', 'backfill', 'repair', 'review', 'second look', 'review of the past'] as const
type Reason = (typeof reasons)[number]
/** Reasons that remain when everything is proven. Together they may take this share of a budget. */
const upkeep = ['repair', 'review', 'second look', 'review of the past'] as const satisfies Reason[]
const upkeepShare = 0.1

/** Why the requests of a slice are made. All of them have its signal. */
const reasonsOfSlices = new WeakMap<object, Reason>()
let current: RequestReasons | undefined

const { run } = SliceRunner.prototype
SliceRunner.prototype.run = function (slice, onAsk, signal) {
  if (current !== undefined) reasonsOfSlices.set(signal, current.reasonOf(slice))
  return run.call(this, slice, onAsk, signal)
}
const { send } = Sender.prototype
Sender.prototype.send = function (operation, parameters, request, attempt) {
  const ofSlice = request.signal && reasonsOfSlices.get(request.signal)
  current?.count(operation, ofSlice ?? 'live')
  return send.call(this, operation, parameters, request, attempt)
}

type DayCounts = Map<Operation, Map<Reason, number>>

/** Counts the requests of a world from now on. */
export function countRequests(plan: WorldPlan, nowMs: () => number): RequestReasons {
  return (current = new RequestReasons(plan, nowMs))
}

/** Requests of a world, by day, operation and reason. */
export class RequestReasons {
  readonly #plan: WorldPlan
  readonly #nowMs: () => number
  readonly #days: DayCounts[] = []
  /** Series of which older rows than those of the recording were wanted. */
  readonly #wanted = new Set<string>()

  constructor(plan: WorldPlan, nowMs: () => number) {
    this.#plan = plan
    this.#nowMs = nowMs
  }

  /** Tells why a slice is fetched. What is older than the recording is a backfill when it is wanted for the first time. */
  reasonOf({ kind, series, ranges, again }: Slice): Reason {
    const isPast = (ranges.at(-1)?.to ?? 0) <= this.#plan.epochMs
    if (kind === 'review') return isPast ? 'review of the past' : again ? 'review' : 'second look'
    const name = streamText(series)
    const isFirst = isPast && !this.#wanted.has(name)
    if (isPast) this.#wanted.add(name)
    return kind === 'backfill' || isFirst ? 'backfill' : 'repair'
  }

  count(operation: Operation, reason: Reason): void {
    const day = (this.#days[Math.floor(this.#nowMs() / dayMs)] ??= new Map<Operation, Map<Reason, number>>())
    const counts = day.get(operation) ?? new Map<Reason, number>()
    day.set(operation, counts)
    counts.set(reason, (counts.get(reason) ?? 0) + 1)
  }

  /** Returns a table of a day, from 0: each reason in requests and as a share of what the limit of its operation admits. */
  table(day: number): string[] {
    return this.#rows(day).map(({ operation, limit, counts, ofUpkeep }) => {
      const parts = reasons.flatMap((reason) => {
        const count = counts.get(reason) ?? 0
        return count === 0 ? [] : [`${reason} ${count} (${percent(count / limit)})`]
      })
      const upkeepText = `upkeep ${percent(ofUpkeep)}${ofUpkeep > upkeepShare ? ' MISSED' : ''}`
      return `day ${day + 1}: ${operation}, ${limit} admitted: ${parts.join(', ')}; ${upkeepText}`
    })
  }

  /** Returns one line for each budget of which upkeep took too much on a day. */
  tooMuch(): string[] {
    return [...this.#days.keys()].flatMap((day) =>
      this.#rows(day)
        .filter(({ ofUpkeep }) => ofUpkeep > upkeepShare)
        .map(
          ({ operation, ofUpkeep }) => `day ${day + 1}: upkeep took ${percent(ofUpkeep)} of the budget of ${operation}`,
        ),
    )
  }

  #rows(day: number) {
    const known: DayCounts = this.#days[day] ?? new Map()
    const { perSecond, perMinute } = this.#plan.limits
    const rowOf = (operation: string, limit: number, counts: ReadonlyMap<Reason, number>) => {
      const ofUpkeep = sum(upkeep.map((reason) => counts.get(reason) ?? 0)) / limit
      return { operation, limit, counts, ofUpkeep }
    }
    const each = operations.flatMap((operation) => {
      const counts = known.get(operation)
      const limit = (perSecond[operation] ?? specifiedPerSecond[operation]) * secondsPerDay
      return counts === undefined ? [] : [rowOf(operation, limit, counts)]
    })
    const all = reasons.map((reason) => [reason, sum(each.map(({ counts }) => counts.get(reason) ?? 0))] as const)
    return [...each, rowOf('all operations', perMinute * 1_440, new Map(all))]
  }
}

const percent = (share: number) => `${(100 * share).toFixed(2)} %`
