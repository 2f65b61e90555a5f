import type { Fill } from '../market/rows.js'
import { normalized, type Ranges, type TimeRange } from '../market/timeRange.js'
import { addMs, earlierOf, laterOf, secondMs, serviceMs, type ServiceMs } from '../market/values.js'

/**
 * The unbroken run of rows that a response is. It proves the time strictly between its oldest and its newest row. Where
 * times run against the order of the rows, both edges move inward by the most that was seen.
 */
export interface Run {
  readonly oldest: ServiceMs
  readonly newest: ServiceMs
  /** The last millisecond for which the oldest row stands. */
  readonly edge: ServiceMs
  /** The most by which a row's time runs against the order of the rows. */
  readonly disorderMs: number
}

/** A run that further rows extend, so that those before need no second look. */
export interface GrowingRun extends Run {
  readonly rows: number
  /** The most by which a time runs against the order if the newest rows come first, and if the oldest do. */
  readonly newestFirst: number
  readonly oldestFirst: number
  readonly areSeconds: boolean
}

/** Returns the run of rows with these times after those before; null if there are none at all. */
export function extendRun(before: GrowingRun | null, times: readonly ServiceMs[]): GrowingRun | null {
  const [first] = times
  if (first === undefined) return before
  let [oldest, newest] = [before?.oldest ?? first, before?.newest ?? first]
  let [newestFirst, oldestFirst] = [before?.newestFirst ?? 0, before?.oldestFirst ?? 0]
  for (const time of times) {
    newestFirst = Math.max(newestFirst, time - oldest)
    oldestFirst = Math.max(oldestFirst, newest - time)
    oldest = earlierOf(oldest, time)
    newest = laterOf(newest, time)
  }
  const rows = (before?.rows ?? 0) + times.length
  const areSeconds = (before?.areSeconds ?? true) && times.every((time) => time % secondMs === 0)
  const edge = areSeconds && rows > 1 ? addMs(oldest, secondMs - 1) : oldest
  const disorderMs = Math.min(newestFirst, oldestFirst)
  return { oldest, newest, edge, disorderMs, rows, newestFirst, oldestFirst, areSeconds }
}

/**
 * Returns the run of rows with these times, in the order of the response; null without rows. Rows whose times are all
 * whole seconds stand for their whole seconds.
 *
 * @param knownDisorderMs the most by which times ran against the order in other responses
 */
export function runOf(times: readonly ServiceMs[], knownDisorderMs = 0): Run | null {
  const run = extendRun(null, times)
  if (run === null) return null
  const { oldest, newest, edge, disorderMs } = run
  return { oldest, newest, edge, disorderMs: Math.max(knownDisorderMs, disorderMs) }
}

/** Returns the time that a run proves, as far as it is settled. */
export function provenBy(run: Run | null, settledUntil: ServiceMs): Ranges {
  if (run === null) return []
  const { edge, newest, disorderMs } = run
  return normalized([{ from: addMs(edge, disorderMs + 1), to: earlierOf(addMs(newest, -disorderMs), settledUntil) }])
}

/** What a whole response shows of the time that it was asked for. */
export interface ShownPage {
  readonly asked: TimeRange
  /** The rows of that time, each with its key, in the order of the response. */
  readonly rows: readonly { readonly ts: ServiceMs; readonly key: string }[]
  /** The number of all rows of the response. Requests reach one millisecond beyond the time that they ask for. */
  readonly total: number
  /** For how long a row stands: a millisecond or, where times are whole seconds, a second. So far beyond its rows may be. */
  readonly beyondMs: number
  /** True if rows lie at the beginning of that time or before it, and at its end or after it. */
  readonly touches: { readonly from: boolean; readonly to: boolean }
  /** False if rows lie further beyond. The operation then ignores bounds, and what the response lacks proves nothing. */
  readonly keepsBounds: boolean
}

/**
 * Returns what a response shows of the time that it was asked for. Fills beyond it bound nothing.
 *
 * @param beyondMs for how long fills of the history stand, where this response does not tell it
 */
export function shownFills(asked: TimeRange, fills: readonly Fill[], beyondMs = standOf(fills)): ShownPage {
  const rows = fills.filter(({ ts }) => ts >= asked.from && ts < asked.to)
  const keepsBounds = fills.every(({ ts }) => ts >= asked.from - beyondMs && ts <= asked.to)
  const shown = rows.map(({ ts, execId }) => ({ ts, key: execId }))
  const touches = { from: fills.some(({ ts }) => ts <= asked.from), to: fills.some(({ ts }) => ts >= asked.to - 1) }
  return { asked, rows: shown, total: fills.length, beyondMs, touches, keepsBounds }
}

/** Returns for how long fills stand: a whole second stands for times up to a second later. */
export function standOf(fills: readonly Fill[]): number {
  return areWholeSeconds(fills) ? secondMs : 1
}

export const areWholeSeconds = (fills: readonly Fill[]) => fills.every(({ ts }) => ts % secondMs === 0)

/**
 * Returns the time that two responses prove to be silent. `page` was asked for that time alone, and is empty. `other`
 * was asked otherwise, and shows no row in that time. Any page with rows may be cut. So a page that shows rows of the one
 * millisecond that bounds a silence counts only `around` an empty one, which was asked for all but the edges.
 *
 * @param largest the most rows that a page of the operation has shown; with as many, a page may be cut in a millisecond
 */
export function provenSilence(
  page: ShownPage,
  other: ShownPage | null,
  largest: number,
  around: ShownPage | null = null,
): Ranges {
  const withEdges = around !== null && page.total === 0 ? silenceOfPage(around, other, largest) : []
  if (withEdges.length > 0) return withEdges
  return page.total === 0 || insideOf(page) === null ? silenceOfPage(page, other, largest) : []
}

function silenceOfPage(
  { asked, rows, total, keepsBounds }: ShownPage,
  other: ShownPage | null,
  largest: number,
): Ranges {
  if (!keepsBounds || other?.keepsBounds !== true) return []
  const isWithin = asked.from >= other.asked.from && asked.to <= other.asked.to
  const isOtherwise = asked.from > other.asked.from || asked.to < other.asked.to
  const [edge = { ts: asked.from }] = rows
  const isEdge = rows.every(({ ts }) => ts === edge.ts) && (edge.ts === asked.from || edge.ts === asked.to - 1)
  if (!isWithin || !isOtherwise || !isEdge || (total > 0 && total >= largest)) return []
  const keys = new Set(rows.map(({ key }) => key))
  const others = other.rows.filter(({ ts }) => ts >= asked.from && ts < asked.to)
  // A row that is shown at the whole second before the stretch may stand in it, and is not asked for with it.
  const { beyondMs } = other
  const silent = { from: serviceMs(Math.ceil(asked.from / beyondMs) * beyondMs), to: asked.to }
  return others.length === rows.length && others.every(({ key }) => keys.has(key)) ? normalized([silent]) : []
}

/** Returns what to ask for without the rows at the edges of a stretch and beside it; null if there is nothing else. */
export function insideOf({ asked: { from, to }, rows, beyondMs, touches, keepsBounds }: ShownPage): TimeRange | null {
  // A row of a whole second may be up to a second later than it says, and never earlier.
  const inside = { from: addMs(from, touches.from ? beyondMs + 1 : 0), to: addMs(to, touches.to ? -2 : 0) }
  const isSmaller = inside.from > from || inside.to < to
  const areAtEdges = keepsBounds && rows.every(({ ts }) => ts === from || ts === to - 1)
  return areAtEdges && isSmaller && inside.from < inside.to ? inside : null
}

/** Returns true if a response to a longer request shows nothing in a range but at its edges, and is not cut there. */
export function showsOnlyEdges({ asked, rows, total }: ShownPage, { from, to }: TimeRange, largest: number): boolean {
  if (asked.from > from || asked.to < to || (asked.from === from && asked.to === to)) return false
  const isInside = rows.some(({ ts }) => ts > from && ts < to - 1)
  const [first, last] = [rows[0]?.ts ?? 0, rows.at(-1)?.ts ?? 0]
  const isCut = total >= largest && (first >= last ? last >= to - 1 : last <= from)
  return !isInside && !isCut
}
