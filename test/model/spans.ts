/** Sets of whole milliseconds as sorted, disjoint, half-open ranges. */

export type Span = readonly [from: number, to: number]

export function unite(spans: Iterable<Span>): Span[] {
  const sorted = [...spans].filter(([from, to]) => from < to).sort((a, b) => a[0] - b[0])
  const united: [number, number][] = []
  for (const [from, to] of sorted) {
    const last = united.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else united.push([from, to])
  }
  return united
}

export function subtract(spans: Iterable<Span>, holes: Iterable<Span>): Span[] {
  const closed = unite(holes)
  const rest: Span[] = []
  let next = 0
  for (const [start, end] of unite(spans)) {
    let from = start
    while ((closed[next]?.[1] ?? Infinity) <= start) next++
    for (let place = next; from < end; place++) {
      const [until, to] = closed[place] ?? [end, end]
      if (from < until) rest.push([from, Math.min(until, end)])
      from = Math.max(from, until < end ? to : end)
    }
  }
  return rest
}

export function intersect(spans: Iterable<Span>, others: Iterable<Span>): Span[] {
  const bounds = unite(others)
  return unite(spans).flatMap(([from, to]) =>
    bounds.map(([least, most]): Span => [Math.max(from, least), Math.min(to, most)]).filter(([a, b]) => a < b),
  )
}

export function covers(spans: Iterable<Span>, span: Span): boolean {
  return subtract([span], spans).length === 0
}

/** The milliseconds of these times. */
export function momentsOf(times: readonly number[]): Span[] {
  return unite(times.map((time) => [time, time + 1]))
}

/** The most by which times run against the order of the rows, in the better of both directions. */
export function disorderOf(rows: readonly { time: number }[]): number {
  let [oldest, newest, asNewestFirst, asOldestFirst] = [Infinity, -Infinity, 0, 0]
  for (const { time } of rows) {
    asNewestFirst = Math.max(asNewestFirst, time - oldest)
    asOldestFirst = Math.max(asOldestFirst, newest - time)
    oldest = Math.min(oldest, time)
    newest = Math.max(newest, time)
  }
  return Math.min(asNewestFirst, asOldestFirst)
}
