import { laterOf, type ServiceMs, sum } from './values.js'

/** A half-open range of time: `from` belongs to it, `to` does not. */
export interface TimeRange {
  readonly from: ServiceMs
  readonly to: ServiceMs
}

/** Ranges in ascending order that do not overlap. `normalized` and `union` make them of any ranges. */
export type Ranges = readonly TimeRange[]

/** Joins ranges, in any order, that overlap or touch. Leaves out empty ones. */
export function normalized(ranges: Iterable<TimeRange>): TimeRange[] {
  const sorted = [...ranges].filter(({ from, to }) => from < to).sort((a, b) => a.from - b.from)
  const result: TimeRange[] = []
  for (const range of sorted) {
    const last = result.at(-1)
    if (last === undefined || range.from > last.to) result.push(range)
    else if (range.to > last.to) result[result.length - 1] = { from: last.from, to: range.to }
  }
  return result
}

export function union(a: Ranges, b: Ranges): TimeRange[] {
  return normalized([...a, ...b])
}

/** Subtracts `b` from `a`. */
export function subtract(a: Ranges, b: Ranges): TimeRange[] {
  const result: TimeRange[] = []
  let index = 0
  for (const range of a) {
    let { from } = range
    while (index < b.length && (b[index] as TimeRange).to <= from) index++
    for (let i = index; i < b.length && (b[i] as TimeRange).from < range.to; i++) {
      const removed = b[i] as TimeRange
      if (removed.from > from) result.push({ from, to: removed.from })
      from = laterOf(from, removed.to)
    }
    if (from < range.to) result.push({ from, to: range.to })
  }
  return result
}

export function intersect(a: Ranges, b: Ranges): TimeRange[] {
  return subtract(a, subtract(a, b))
}

export function totalMs(ranges: Ranges): number {
  return sum(ranges.map(({ from, to }) => to - from))
}
