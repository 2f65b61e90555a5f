import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { TradedCategory } from '../market/category.js'
import type { Operation, StreamName } from '../market/stream.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Series } from '../db/series.js'

/** An instrument's series of rows that have times of their own, such as fills or settled funding rates. */
export type EventSeries = Series & { readonly category: TradedCategory }

/** A request for one page. */
export interface EventQuery {
  readonly series: EventSeries
  /** The newest rows of this time are wanted. */
  readonly window: TimeRange
  /** The number of the page within the slice, from 1, for operations that count their pages from the newest row. */
  readonly page: number
}

/** Part of a history that one page shows completely. */
export interface EventPage<Row> {
  readonly series: EventSeries
  /** The page holds every row of this time that the history has. */
  readonly covered: TimeRange
  /** The wanted parts of `covered`. */
  readonly wanted: Ranges
  /** The rows of `covered`. */
  readonly rows: readonly Row[]
  readonly receivedAt: TimeMs
}

export interface StoredPage {
  readonly inserted: number
  /** Wanted parts that are not claimed, because the page is not complete there. */
  readonly refused?: Ranges
  /** Why nothing of the page is stored, and nothing is claimed. */
  readonly refusal?: string
  /** True if the refusal holds for everything that the operation gives. */
  readonly isForAll?: boolean
}

/**
 * The history of a stream of events: an entry of `eventHistories`. `fetchEvents` asks it page by page and gives the
 * pages to `store`, which stores rows and what they prove in one transaction.
 */
export interface EventHistory<Row> {
  readonly stream: StreamName
  readonly operationOf: (category: TradedCategory) => Operation
  /** The largest number of rows in a page. A page with fewer shows all rows of its window. */
  readonly pageRows: number
  /** The longest window of a request; null for any. */
  readonly maxSpanMs: number | null
  /** Rows older than this are no longer given. */
  readonly reachMs: number
  /** True if pages are counted from the newest row of all, whatever the window. */
  readonly isNumbered: boolean
  readonly ask: (client: ExchangeClient, query: EventQuery, request: RequestOptions) => Promise<Page<Row>>
  readonly timeOf: (row: Row) => TimeMs
  /** Time of a stored row at or just above `top` that a page has to show, too; null if there is none. */
  readonly rowAbove?: (series: EventSeries, top: TimeMs) => Promise<TimeMs | null>
  /** Called once for a slice without such a row. Resolves to why nothing can be proven, or null. */
  readonly whyUnproven?: (
    client: ExchangeClient,
    series: EventSeries,
    request: RequestOptions,
  ) => Promise<string | null>
  readonly store: (page: EventPage<Row>) => Promise<StoredPage>
  /** Notes why a wanted range is not stored. */
  readonly explain: (series: EventSeries, range: TimeRange, reason: string) => Promise<void>
}

export interface EventContext {
  readonly client: ExchangeClient
  readonly request: RequestOptions
  /** Sends a request, again while the service is away. */
  readonly ask: <Row>(request: () => Promise<Page<Row>>) => Promise<Page<Row>>
  readonly counts: { received: number; inserted: number }
}

export interface EventOutcome {
  /** Ranges that were asked for in vain. */
  readonly refused: Ranges
  /** Why everything that the operation gives is refused. */
  readonly refusalOfAll?: string
}

/** Requests begin this much below the lowest wanted range, so that they show a stored row there. */
const marginMs = 600_000

/**
 * Fetches ranges of events page by page, from the newest to the oldest. Each page is stored before the next is asked
 * for, so that an interrupted slice continues where it stopped. Stretches that are not wanted are jumped over.
 */
export async function fetchEvents<Row>(
  source: EventHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  { client, request, ask, counts }: EventContext,
): Promise<EventOutcome> {
  const refused: TimeRange[] = []
  let left = normalized(ranges)
  let shownFrom = Number.POSITIVE_INFINITY
  let isProven = false
  const refuse = async (range: TimeRange, reason: string) => {
    for (const part of intersect(left, [range])) await source.explain(series, part, reason)
    refused.push(...intersect(left, [range]))
    left = subtract(left, [range])
  }
  for (let page = 1, range = left.at(-1); range !== undefined; page++, range = left.at(-1)) {
    const above = (await source.rowAbove?.(series, range.to)) ?? null
    if (above === null && !isProven) {
      const reason = (await source.whyUnproven?.(client, series, request)) ?? null
      if (reason !== null) {
        for (const part of left) await source.explain(series, part, reason)
        return { refused: left }
      }
      isProven = true
    }
    const lowest = (left[0] as TimeRange).from - marginMs
    const window = windowBelow(source, above === null ? range.to : Math.max(range.to, above + 1), range.to, lowest)
    const response = await ask(() => source.ask(client, { series, window, page }, request))
    const { rows, rejected, rejectedUnkept, surplusRows, receivedAt } = response
    counts.received += rows.length
    if (rejected.length + rejectedUnkept + surplusRows > 0) {
      await refuse(range, 'its history holds rows that cannot be understood')
      continue
    }
    // Older rows of the oldest millisecond may be on the next page.
    const cut = Math.min(Number.POSITIVE_INFINITY, ...rows.map(source.timeOf)) + 1
    const isFull = rows.length >= source.pageRows
    const to = Math.min(window.to, shownFrom)
    if (source.isNumbered && isFull) {
      shownFrom = Math.min(shownFrom, cut)
      if (shownFrom > range.to) continue
    }
    let stored: StoredPage = { inserted: 0, refusal: 'more rows happened in one millisecond than a page holds' }
    let covered = range
    // A page that leaves out rows is not full, and does not reach the lower end of its window.
    for (const from of isFull ? [cut] : [window.from, cut]) {
      covered = { from: Math.max(from, window.from), to }
      const wanted = covered.from < covered.to ? intersect(left, [covered]) : []
      if (wanted.length === 0) continue
      const shown = rows.filter((row) => source.timeOf(row) >= covered.from && source.timeOf(row) < covered.to)
      stored = await source.store({ series, covered, wanted, rows: shown, receivedAt })
      if (stored.refusal === undefined || stored.isForAll === true) break
    }
    counts.inserted += stored.inserted
    if (stored.refusal === undefined) {
      refused.push(...(stored.refused ?? []))
      left = subtract(left, [covered])
    } else if (stored.isForAll === true) {
      for (const part of left) await source.explain(series, part, stored.refusal)
      return { refused: [...refused, ...left], refusalOfAll: stored.refusal }
    } else
      await refuse(
        intersect(left, [{ from: window.from, to }]).length > 0 ? { from: window.from, to } : range,
        stored.refusal,
      )
  }
  return { refused: normalized(refused) }
}

/** The window of a page that ends at `end`, or at `top` where it would be too long to reach below that. */
function windowBelow(
  { maxSpanMs }: { readonly maxSpanMs: number | null },
  end: TimeMs,
  top: TimeMs,
  lowest: TimeMs,
): TimeRange {
  if (maxSpanMs === null) return { from: lowest, to: end }
  // Two milliseconds are spared, because the request reaches one beyond both ends.
  const spanMs = maxSpanMs - 2
  const to = end - top <= spanMs / 2 ? end : top
  return { from: Math.max(lowest, to - spanMs), to }
}
