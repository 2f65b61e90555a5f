/** Responses of fills, the runs that they are, and what joins them. */
import { intersect, momentsOf, type Span, subtract, unite } from './spans.js'

export type Fill = { id: string; time: number; price: number; size: number }
export type Operation = 'live' | 'history'

/** A response in the order in which its rows came. Without bounds, nothing was asked but the newest rows. */
export type Page = {
  operation: Operation
  from: number | null
  to: number | null
  /** The service's own time. */
  at: number
  rows: Fill[]
  /** Times of rows that cannot be understood. */
  unread: number[]
  /** It leaves out rows of a history whose times run against their order, so that it may be refused. */
  isOrderInDoubt?: boolean
}

export type Seen = { page: Page; disorder: number; isUnbroken: boolean; moments: Span[] }

const settling: Record<Operation, number> = { live: 2_000, history: 20_000 }

/** Groups of responses of which each shares a row with another one. */
export function groupsOf(
  responses: readonly Seen[],
  isShared: (row: Fill, other: Fill | undefined) => boolean,
): Seen[][] {
  const groups: Seen[][] = []
  for (const seen of responses) {
    const own = new Map(seen.page.rows.map((row) => [row.id, row]))
    const joined = groups.filter((group) =>
      group.some(({ page }) => page.rows.some((row) => isShared(row, own.get(row.id)))),
    )
    for (const group of joined) groups.splice(groups.indexOf(group), 1)
    groups.push([seen, ...joined.flat()])
  }
  return groups
}

export const sameValues = (one: Fill, other: Fill | undefined) =>
  one.time === other?.time && one.price === other.price && one.size === other.size

export const storedOf = (stored: ReadonlyMap<string, Fill>) => (fill: Fill) => ({ fill: stored.get(fill.id) ?? fill })

export function askedOf(page: Page): Span {
  return [page.from ?? -Infinity, page.to ?? page.at]
}

/** A response with rows far beyond its bounds was not asked for them. What it lacks says nothing. */
export function keepsBounds(page: Page): boolean {
  const [from, to] = askedOf(page)
  return page.rows.every(({ time }) => time >= from - 1_000 && time <= to)
}

/** Only rows between the others say by their times what the page does not prove. */
export function isReadInPart({ rows, unread }: Page): boolean {
  const times = rows.map(({ time }) => time)
  return unread.every((time) => times.length > 0 && time >= Math.min(...times) && time <= Math.max(...times))
}

export const settledBy = (page: Page) => page.at - settling[page.operation]

export function runOf(page: Page, disorder: number): Span {
  const [from, to] = askedOf(page)
  const { rows } = page
  const times = rows.map(({ time }) => time).filter((time) => time >= from && time < to)
  if (times.length === 0) return [0, 0]
  const oldest = Math.min(...times)
  // Rows of whole seconds stand for their whole seconds.
  const areSeconds = times.length > 1 && times.every((time) => time % 1_000 === 0)
  return [oldest + (areSeconds ? 1_000 : 1) + disorder, Math.max(...times) - disorder]
}

export function runOfGroup(group: readonly Seen[]): Span[] {
  const runs = group.map(({ page }) => runOf(page, 0))
  const disorder = Math.max(...group.map((seen) => seen.disorder))
  const settled = Math.max(...group.map(({ page }) => settledBy(page)))
  const from = Math.min(...runs.map((run) => run[0])) + disorder
  const to = Math.min(Math.max(...runs.map((run) => run[1])) - disorder, settled)
  const touched = subtract([[from, to]], runs)
  // Each response alone proves what its own order allows. Those that it joins settle it.
  const alone = group.map(({ page, disorder: own }) => intersect([runOf(page, own)], [[-Infinity, settled]]))
  const proven = unite([...subtract([[from, to]], touched), ...alone.flat()])
  // Another response of the group may show what one of them does not.
  const inPart = group.filter(({ page }) => page.unread.length > 0)
  const unread = inPart.flatMap(({ page, disorder: own }) => {
    const others = group.filter((seen) => seen.page !== page)
    const shown = others.flatMap((seen) => subtract([runOf(seen.page, own)], momentsOf(seen.page.unread)))
    return subtract(momentsOf(page.unread), shown)
  })
  return subtract(proven, unread)
}

export function isAskedOtherwise(one: Page, other: Page): boolean {
  return one.operation !== other.operation || one.from !== other.from || one.to !== other.to
}

/** The ids that a response shows in a stretch. */
export function idsAt([from, to]: Span, { page }: Seen): string {
  return page.rows
    .filter(({ time }) => time >= from && time < to)
    .map(({ id }) => id)
    .sort()
    .join()
}
