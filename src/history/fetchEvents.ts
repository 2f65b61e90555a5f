import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { TradedCategory } from '../market/category.js'
import type { Operation, StreamName } from '../market/stream.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import { minuteMs, minuteOf, type TimeMs } from '../market/values.js'
import type { Series } from '../db/series.js'

/** An instrument's series of rows that have times of their own, such as fills or settled funding rates. */
export type EventSeries = Series & { readonly category: TradedCategory }

/** A request for one page. */
interface EventQuery {
  readonly series: EventSeries
  /** The newest rows of this time are wanted. */
  readonly window: TimeRange
  /** The number of the page within the slice, from 1, for operations whose pages are counted from the newest row. */
  readonly page: number
  /** What the page before gave as the name of this one. */
  readonly cursor: string | undefined
}

/** Part of a history that one page shows completely. */
interface EventPage<Row> {
  readonly series: EventSeries
  /** The page holds every row of this time that the history has. */
  readonly covered: TimeRange
  /** The time of which this page and those before it show every row. */
  readonly shown: TimeRange
  /** What is to be claimed: the wanted parts of `covered`, and of a minute that the page before has cut. */
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
  /** The largest number of rows in a page. */
  readonly pageRows: number
  /** The longest window of a request; null for any. */
  readonly maxSpanMs: number | null
  /** Rows older than this are no longer given. */
  readonly reachMs: number
  /** Set if pages are counted from the newest row of all, whatever the window. */
  readonly numbered: NumberedPages<Row> | null
  /** Set if rows are checked by the minute: whole minutes are asked for, once they are over for this long. */
  readonly minutesLateMs?: number
  readonly ask: (client: ExchangeClient, query: EventQuery, request: RequestOptions) => Promise<Page<Row>>
  readonly timeOf: (row: Row) => TimeMs
  /** Times of stored rows next to a range, which its pages have to show, too. */
  readonly neighbours?: (series: EventSeries, range: TimeRange) => Promise<Neighbours>
  /** Called once for a slice without a row above it. Resolves to why nothing can be proven, or null. */
  readonly whyUnproven?: (context: EventContext, series: EventSeries) => Promise<string | null>
  readonly store: (page: EventPage<Row>) => Promise<StoredPage>
  /** Notes why a wanted range is not stored. */
  readonly explain?: (series: EventSeries, range: TimeRange, reason: string) => Promise<void>
}

interface NumberedPages<Row> {
  /** What tells rows apart. Equal ones are told apart by their places. */
  readonly textOf: (row: Row) => string
  /** The time below the oldest row of all in which there is nothing, as the last page shows. */
  readonly silentBelowMs: number
}

interface Neighbours {
  /** At the last millisecond of the range or above; null if other rows may lie between. */
  readonly above: TimeMs | null
  /** Before the range; null if other rows may lie between. */
  readonly below: TimeMs | null
}

interface EventContext {
  readonly client: ExchangeClient
  readonly request: RequestOptions
  /** Sends a request, again while the service is away. */
  readonly ask: <Row>(request: () => Promise<Page<Row>>) => Promise<Page<Row>>
  /** The service's clock. */
  readonly now: () => TimeMs
  readonly counts: { received: number; inserted: number }
}

interface EventOutcome {
  /** Ranges that were asked for in vain. */
  readonly refused: Ranges
  /** Why everything that the operation gives is refused. */
  readonly refusalOfAll?: string
}

/** Requests begin this much below the lowest wanted range where no stored row is known there. */
const marginMs = 600_000

/**
 * Fetches ranges of events page by page, from the newest to the oldest. Each page is stored before the next is asked
 * for, so that an interrupted slice continues where it stopped. Stretches that are not wanted are jumped over.
 *
 * An empty page proves nothing: a page covers the time from its oldest row to its end. Below that, silence is proven by
 * an older row alone, which is looked for in one window after another, as far as the history reaches.
 */
export async function fetchEvents<Row>(
  source: EventHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  const { client, request, ask, now, counts } = context
  const { pageRows, numbered, reachMs, maxSpanMs, minutesLateMs } = source
  // Two milliseconds are spared, because a request may reach one beyond both ends.
  const spanMs = maxSpanMs === null ? Number.POSITIVE_INFINITY : maxSpanMs - 2
  const refused: TimeRange[] = []
  let left = normalized(ranges)
  let isProven = false
  /** The last rows of numbered pages, with all that are not stored yet, and the oldest time of which everything was shown. */
  let shown: readonly Row[] = []
  let shownFrom = Number.POSITIVE_INFINITY
  /** The time of which the last pages, which adjoin, show every row. */
  let walked: TimeRange = { from: Number.NaN, to: Number.NaN }
  /** Stored and not claimed yet, in a minute that the last page has cut. */
  let cut: Ranges = []
  let cursor: string | undefined
  /** A silent stretch below the last page: its upper end, and where the next window ends. */
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
      // The pages before have shown what is above.
      const isOver = range.to !== walked.from && minuteEnd <= now() - (minutesLateMs ?? Infinity)
      const end = Math.max(range.to, above === null ? 0 : above + 1, isOver ? minuteEnd : 0)
      // A window too short for a row above it ends at the range: all above that is proven.
      to = end - range.to <= spanMs / 2 ? end : range.to
      const lowest = edges?.below ?? from - marginMs
      window = { from: Math.max(bottom, lowest, to - spanMs), to }
    } else {
      to = silent.to
      window = { from: Math.max(bottom, silent.end - spanMs), to: silent.end }
    }
    // Numbered pages begin with the newest row of all.
    if (numbered === null && window.from >= window.to) {
      await refuse(left, 'its history shows nothing older')
      break
    }
    const response = await ask(() => source.ask(client, { series, window, page, cursor }, request))
    const { rejected, rejectedUnkept, surplusRows, receivedAt } = response
    counts.received += response.rows.length
    if (rejected.length + rejectedUnkept + surplusRows > 0) {
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
      // The next page repeats no more than a page holds.
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
 * Puts a numbered page below those before it. It repeats their last rows when new ones came meanwhile, which moved all
 * others down. An equal row at the end of one page and the beginning of the next counts as such a repetition.
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
