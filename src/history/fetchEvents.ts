import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { TradedCategory } from '../market/category.js'
import type { Operation, StreamName } from '../market/stream.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import { minuteMs, minuteOf, type TimeMs } from '../market/values.js'
import type { Series } from '../db/series.js'
import { missingRows } from '../ledger/batch.js'

/** An instrument's series of rows that have times of their own, such as fills or settled funding rates. */
export type EventSeries = Series & { readonly category: TradedCategory }

/** A request for one page. */
interface EventQuery {
  readonly series: EventSeries
  /** The range of time whose newest rows are wanted. */
  readonly window: TimeRange
  /** The number of the page within the slice, from 1, for operations whose pages are counted from the newest row. */
  readonly page: number
  /** Name of this page, as the page before gave it. */
  readonly cursor: string | undefined
}

/** Part of a history that one page shows completely. */
interface EventPage<Row> {
  readonly series: EventSeries
  /** The range of time of which the page holds every row that the history has. */
  readonly covered: TimeRange
  /** The range of time of which this page and the adjoining pages before it show every row. */
  readonly shown: TimeRange
  /** Ranges to be claimed: the wanted parts of `covered`, and of a minute that the page before has cut. */
  readonly wanted: Ranges
  /** The rows of `covered`. */
  readonly rows: readonly Row[]
  readonly receivedAt: TimeMs
}

interface StoredPage {
  readonly inserted: number
  /** Wanted parts that are not claimed, because the page is not complete there. */
  readonly refused?: Ranges
  /** A minute that the page shows in part. Nothing is claimed of it before the next page shows the rest. */
  readonly cut?: TimeRange | null
  /** Reason why nothing of the page is stored, and nothing is claimed. */
  readonly refusal?: string
  /** True if the refusal holds for everything that the operation gives. */
  readonly isForAll?: boolean
}

/**
 * The history of a stream of events. `fetchEvents` requests it page by page, and gives the pages to `store`. This
 * function stores rows and what they prove in one transaction.
 */
export interface EventHistory<Row> {
  readonly stream: StreamName
  readonly operationOf: (category: TradedCategory) => Operation
  /** The largest number of rows in a page. */
  readonly pageRows: number
  /** The longest window of a request; null if there is no bound. */
  readonly maxSpanMs: number | null
  /** Age beyond which the service gives no rows. */
  readonly reachMs: number
  /** Set if pages are counted from the newest row of all, whatever the window. */
  readonly numbered: NumberedPages<Row> | null
  /** Set if rows are checked by the minute. Whole minutes are requested, at the earliest this long after their end. */
  readonly minutesLateMs?: number
  readonly ask: (client: ExchangeClient, query: EventQuery, request: RequestOptions) => Promise<Page<Row>>
  readonly timeOf: (row: Row) => TimeMs
  /** Resolves to the times of stored rows next to a range. Pages of the range must show these rows, too. */
  readonly neighbours?: (series: EventSeries, range: TimeRange) => Promise<Neighbours>
  /** Called once for a slice without a row above it. Resolves to why nothing can be proven, or null. */
  readonly whyUnproven?: (context: EventContext, series: EventSeries) => Promise<string | null>
  readonly store: (page: EventPage<Row>) => Promise<StoredPage>
  /** Notes why a wanted range is not stored. */
  readonly explain?: (series: EventSeries, range: TimeRange, reason: string) => Promise<void>
}

interface NumberedPages<Row> {
  /** Returns a text that tells rows apart. Rows with equal texts are told apart by their places. */
  readonly textOf: (row: Row) => string
  /** Length of time before the oldest row of all in which there is no row, as the last page proves. */
  readonly silentBelowMs: number
}

interface Neighbours {
  /** Time of a row at the last millisecond of the range or later; null if other rows may lie in between. */
  readonly above: TimeMs | null
  /** Time of a row before the range; null if other rows may lie in between. */
  readonly below: TimeMs | null
}

interface EventContext {
  readonly client: ExchangeClient
  readonly request: RequestOptions
  /** Sends a request, and repeats it while the service is away. */
  readonly ask: <Row>(request: () => Promise<Page<Row>>) => Promise<Page<Row>>
  /** Returns the time of the service's clock. */
  readonly now: () => TimeMs
  readonly counts: { received: number; inserted: number }
}

interface EventOutcome {
  /** Ranges that were requested in vain. */
  readonly refused: Ranges
  /** Reason why everything that the operation gives is refused. */
  readonly refusalOfAll?: string
}

/** Requests begin this much below the lowest wanted range if no stored row is known there. */
const marginMs = 600_000

/**
 * Fetches ranges of events page by page, from the newest to the oldest. Each page is stored before the next is
 * requested, so that an interrupted slice continues where it stopped. Ranges that are not wanted are skipped.
 *
 * An empty page proves nothing: a page covers the time from its oldest row to its end. Below that, only an older row
 * proves silence. It is looked for in one window after another, as far as the history reaches.
 */
export async function fetchEvents<Row>(
  source: EventHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  const { client, request, ask, now, counts } = context
  const { pageRows, numbered, reachMs, maxSpanMs, minutesLateMs } = source
  // Two milliseconds are spared, because a request may reach one millisecond beyond each end.
  const spanMs = maxSpanMs === null ? Number.POSITIVE_INFINITY : maxSpanMs - 2
  const refused: TimeRange[] = []
  let left = normalized(ranges)
  let isProven = false
  /** The last rows of numbered pages, with all rows not stored yet, and the time from which every row was shown. */
  let shown: readonly Row[] = []
  let shownFrom = Number.POSITIVE_INFINITY
  /** The range of time of which the last adjoining pages show every row. */
  let walked: TimeRange = { from: Number.NaN, to: Number.NaN }
  /** Ranges that are stored but not claimed yet, in a minute that the last page has cut. */
  let cut: Ranges = []
  let cursor: string | undefined
  /** A silent range below the last page: its upper end, and the end of the next window. */
  let silent: { readonly to: TimeMs; readonly end: TimeMs } | null = null

  const refuse = async (parts: Ranges, reason: string) => {
    for (const part of parts) await source.explain?.(series, part, reason)
    refused.push(...parts)
    left = subtract(left, parts)
  }
  for (let page = 1, range = left.at(-1); range !== undefined; page++, range = left.at(-1)) {
    const bottom = now() - reachMs
    let to: TimeMs
    let window: TimeRange
    if (silent === null) {
      const lowestWanted = (left[0] as TimeRange).from
      const from = minutesLateMs === undefined ? lowestWanted : minuteOf(lowestWanted)
      const edges = await source.neighbours?.(series, { from, to: range.to })
      const above = edges?.above ?? null
      if (above === null && !isProven) {
        const reason = (await source.whyUnproven?.(context, series)) ?? null
        if (reason !== null) {
          await refuse(left, reason)
          break
        }
        isProven = true
      }
      const minuteEnd = minuteOf(range.to - 1) + minuteMs
      // If the range ends where the last pages began, those pages have shown what is above it.
      const isOver = range.to !== walked.from && minuteEnd <= now() - (minutesLateMs ?? Infinity)
      const end = Math.max(range.to, above === null ? 0 : above + 1, isOver ? minuteEnd : 0)
      // If the row above is far away, the window ends at the range, because everything above the range is proven.
      to = end - range.to <= spanMs / 2 ? end : range.to
      const lowest = edges?.below ?? from - marginMs
      window = { from: Math.max(bottom, lowest, to - spanMs), to }
    } else {
      to = silent.to
      window = { from: Math.max(bottom, silent.end - spanMs), to: silent.end }
    }
    // Numbered pages begin with the newest row of all, so they have no window that could be empty.
    if (numbered === null && window.from >= window.to) {
      await refuse(left, 'its history shows nothing older')
      break
    }
    const response = await ask(() => source.ask(client, { series, window, page, cursor }, request))
    const { receivedAt } = response
    counts.received += response.rows.length
    if (missingRows(response) > 0) {
      // Below a numbered page that lacks rows, the places of all others are unknown.
      await refuse(numbered === null ? [range] : left, 'its history holds rows that cannot be understood')
      silent = null
      continue
    }
    cursor = response.cursor
    const isFull = response.rows.length >= pageRows || cursor !== undefined
    const rows = numbered === null ? response.rows : joinPages(shown, response.rows, numbered.textOf)
    const isStuck = numbered !== null && isFull && rows.length === shown.length
    const oldest = rows.reduce((time, row) => Math.min(time, source.timeOf(row)), Number.POSITIVE_INFINITY)
    // More rows of the oldest millisecond may be on the next page.
    const from = isFull
      ? oldest + 1
      : Math.max(oldest - (numbered?.silentBelowMs ?? 0), Math.min(oldest, now() - reachMs))
    const covered = { from, to: Math.min(to, shownFrom) }
    if (numbered !== null) {
      shownFrom = Math.min(shownFrom, covered.from)
      // The next page repeats no more rows than a page holds, so earlier rows that are stored are dropped.
      const lastPage = rows.length - Math.max(pageRows, response.rows.length)
      shown = rows.filter((row, place) => place >= lastPage || source.timeOf(row) < shownFrom)
    }
    const wanted = covered.from < covered.to ? intersect(left, [covered]) : []
    if (covered.from < covered.to) walked = covered.to >= walked.from ? { from: covered.from, to: walked.to } : covered
    if (wanted.length > 0) {
      const claimed = union(wanted, cut)
      const inside = rows.filter((row) => source.timeOf(row) >= covered.from && source.timeOf(row) < covered.to)
      const stored = await source.store({
        series,
        covered,
        shown: walked,
        wanted: claimed,
        rows: inside,
        receivedAt,
      })
      counts.inserted += stored.inserted
      if (stored.refusal !== undefined) {
        await refuse(stored.isForAll === true ? union(left, cut) : claimed, stored.refusal)
        cut = []
        if (stored.isForAll === true) return { refused: normalized(refused), refusalOfAll: stored.refusal }
      } else {
        refused.push(...(stored.refused ?? []))
        left = subtract(left, wanted)
        const minute = stored.cut ?? null
        cut = minute === null ? [] : intersect(claimed, [minute])
        if (minute !== null) left = union(left, [{ from: minute.from, to: covered.from }])
      }
    }
    silent = null
    const next = left.at(-1)
    if (next === undefined) break
    if (numbered !== null) {
      if (!isFull || isStuck) await refuse(left, 'its history shows nothing older')
    } else if (isFull) {
      const isCrowded = wanted.length === 0 && covered.from >= to
      if (isCrowded) await refuse([range], 'more rows happened in one millisecond than a page holds')
      else if (wanted.length === 0) silent = { to: covered.from, end: covered.from }
    } else if (next.to > window.from) silent = { to: Math.min(oldest, to), end: window.from }
  }
  return { refused: normalized([...refused, ...cut]) }
}

/**
 * Joins a numbered page to the pages above it. New rows that came meanwhile move all others down, so that the page
 * repeats the last rows above it. Equal rows at the end of one page and the beginning of the next count as repeated.
 */
export function joinPages<Row>(
  above: readonly Row[],
  page: readonly Row[],
  textOf: (row: Row) => string,
): readonly Row[] {
  let repeated = Math.min(above.length, page.length)
  const [ends, begins] = [above.slice(above.length - repeated), page].map((rows) => rows.map(textOf)) as [
    string[],
    string[],
  ]
  const isRepetition = () => ends.slice(ends.length - repeated).every((text, place) => text === begins[place])
  while (!isRepetition()) repeated--
  return [...above, ...page.slice(repeated)]
}
