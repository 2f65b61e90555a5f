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
const nothingOlder = 'its history shows nothing older'

/**
 * Fetches ranges of events page by page, from the newest to the oldest. Each page is stored before the next is
 * requested, so that an interrupted slice continues where it stopped. Ranges that are not wanted are skipped.
 *
 * An empty page proves nothing: a page covers the time from its oldest row to its end. Below that, only an older row
 * proves silence. It is looked for in one window after another, as far as the history reaches.
 */
export function fetchEvents<Row>(
  source: EventHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  return new EventWalk(source, series, ranges, context).run()
}

/** A window to request, and the end of the time that its page covers. Below a silent range, that end is higher. */
interface Question {
  readonly window: TimeRange
  readonly to: TimeMs
}

class EventWalk<Row> {
  readonly #source: EventHistory<Row>
  readonly #series: EventSeries
  readonly #context: EventContext
  /** The longest window. Two milliseconds are spared, because a request may reach one millisecond beyond each end. */
  readonly #spanMs: number
  #left: Ranges
  #refused: Ranges = []
  #refusalOfAll: string | undefined
  /** True once the rows of the history are known to be those that are stored live. */
  #isProven = false
  #cursor: string | undefined
  /** The range of time of which the last adjoining pages show every row. */
  #walked: TimeRange = { from: Number.NaN, to: Number.NaN }
  /** Ranges that are stored but not claimed yet, in a minute that the last page has cut. */
  #cut: Ranges = []
  /** A silent range below the last page: its upper end, and the end of the next window. */
  #silent: { readonly to: TimeMs; readonly end: TimeMs } | null = null
  /** The last rows of numbered pages, with all rows not stored yet, and the time from which every row was shown. */
  #shown: readonly Row[] = []
  #shownFrom = Number.POSITIVE_INFINITY

  constructor(source: EventHistory<Row>, series: EventSeries, ranges: Ranges, context: EventContext) {
    this.#source = source
    this.#series = series
    this.#context = context
    this.#spanMs = source.maxSpanMs === null ? Number.POSITIVE_INFINITY : source.maxSpanMs - 2
    this.#left = normalized(ranges)
  }

  async run(): Promise<EventOutcome> {
    for (let page = 1, range = this.#left.at(-1); range !== undefined; page++, range = this.#left.at(-1)) {
      const question = await this.#nextQuestion(range)
      if (question !== null) await this.#fetchPage(page, range, question)
    }
    const refused = union(this.#refused, this.#cut)
    return this.#refusalOfAll === undefined ? { refused } : { refused, refusalOfAll: this.#refusalOfAll }
  }

  /** Resolves to the next window. If nothing can be proven, or nothing is left to ask for, refuses all and gives null. */
  async #nextQuestion(range: TimeRange): Promise<Question | null> {
    const { numbered } = this.#source
    const bottom = this.#context.now() - this.#source.reachMs
    const question = this.#silent === null ? await this.#questionAt(range, bottom) : this.#below(this.#silent, bottom)
    // Numbered pages begin with the newest row of all, so they have no window that could be empty.
    if (question === null || numbered !== null || question.window.from < question.window.to) return question
    await this.#refuse(this.#left, nothingOlder)
    return null
  }

  #below({ to, end }: { readonly to: TimeMs; readonly end: TimeMs }, bottom: TimeMs): Question {
    return { to, window: { from: Math.max(bottom, end - this.#spanMs), to: end } }
  }

  /** Resolves to a window whose page also shows the stored rows next to the wanted ranges. */
  async #questionAt(range: TimeRange, bottom: TimeMs): Promise<Question | null> {
    const { minutesLateMs, neighbours } = this.#source
    const lowest = this.#left[0]?.from ?? range.from
    const from = minutesLateMs === undefined ? lowest : minuteOf(lowest)
    const edges = await neighbours?.(this.#series, { from, to: range.to })
    const above = edges?.above ?? null
    if (above === null && !(await this.#canProve())) return null
    const to = this.#endAbove(range, above)
    return { to, window: { from: Math.max(bottom, edges?.below ?? from - marginMs, to - this.#spanMs), to } }
  }

  async #canProve(): Promise<boolean> {
    if (this.#isProven) return true
    const reason = (await this.#source.whyUnproven?.(this.#context, this.#series)) ?? null
    this.#isProven = reason === null
    if (reason !== null) await this.#refuse(this.#left, reason)
    return this.#isProven
  }

  /** Returns the end of the window for a range: beyond the row above it, and at the end of its last minute. */
  #endAbove(range: TimeRange, above: TimeMs | null): TimeMs {
    const minuteEnd = minuteOf(range.to - 1) + minuteMs
    const lateMs = this.#source.minutesLateMs ?? Number.POSITIVE_INFINITY
    // If the range ends where the last pages began, those pages have shown what is above it.
    const isOver = range.to !== this.#walked.from && minuteEnd <= this.#context.now() - lateMs
    const end = Math.max(range.to, above === null ? 0 : above + 1, isOver ? minuteEnd : 0)
    // If the row above is far away, the window ends at the range, because everything above the range is proven.
    return end - range.to <= this.#spanMs / 2 ? end : range.to
  }

  async #fetchPage(page: number, range: TimeRange, { window, to }: Question): Promise<void> {
    const { ask, client, counts, request } = this.#context
    const { numbered, pageRows, timeOf } = this.#source
    const query = { series: this.#series, window, page, cursor: this.#cursor }
    const response = await ask(() => this.#source.ask(client, query, request))
    counts.received += response.rows.length
    this.#silent = null
    if (missingRows(response) > 0) {
      // Below a numbered page that lacks rows, the places of all others are unknown.
      return this.#refuse(numbered === null ? [range] : this.#left, 'its history holds rows that cannot be understood')
    }
    this.#cursor = response.cursor
    const isFull = response.rows.length >= pageRows || response.cursor !== undefined
    const rows = numbered === null ? response.rows : joinPages(this.#shown, response.rows, numbered.textOf)
    const hasNew = numbered === null || rows.length > this.#shown.length
    const oldest = rows.reduce((time, row) => Math.min(time, timeOf(row)), Number.POSITIVE_INFINITY)
    const covered = { from: this.#coveredFrom(oldest, isFull), to: Math.min(to, this.#shownFrom) }
    if (numbered !== null) this.#keepShown(rows, covered.from, response.rows.length)
    const wanted = covered.from < covered.to ? intersect(this.#left, [covered]) : []
    if (covered.from < covered.to)
      this.#walked = covered.to >= this.#walked.from ? { from: covered.from, to: this.#walked.to } : covered
    if (wanted.length > 0) await this.#store(covered, wanted, rows, response.receivedAt)
    const next = this.#left.at(-1)
    if (next === undefined) return
    if (numbered !== null) {
      if (!isFull || !hasNew) await this.#refuse(this.#left, nothingOlder)
    } else if (!isFull) {
      if (next.to > window.from) this.#silent = { to: Math.min(oldest, to), end: window.from }
    } else if (wanted.length === 0) {
      const isCrowded = covered.from >= to
      if (isCrowded) await this.#refuse([range], 'more rows happened in one millisecond than a page holds')
      else this.#silent = { to: covered.from, end: covered.from }
    }
  }

  /** Returns the time from which a page shows every row. */
  #coveredFrom(oldest: TimeMs, isFull: boolean): TimeMs {
    // More rows of the oldest millisecond may be on the next page.
    if (isFull) return oldest + 1
    const { numbered, reachMs } = this.#source
    return Math.max(oldest - (numbered?.silentBelowMs ?? 0), Math.min(oldest, this.#context.now() - reachMs))
  }

  #keepShown(rows: readonly Row[], from: TimeMs, responseRows: number): void {
    this.#shownFrom = Math.min(this.#shownFrom, from)
    // The next page repeats no more rows than a page holds, so earlier rows that are stored are dropped.
    const lastPage = rows.length - Math.max(this.#source.pageRows, responseRows)
    this.#shown = rows.filter((row, place) => place >= lastPage || this.#source.timeOf(row) < this.#shownFrom)
  }

  async #store(covered: TimeRange, wanted: Ranges, rows: readonly Row[], receivedAt: TimeMs): Promise<void> {
    const { store, timeOf } = this.#source
    const claimed = union(wanted, this.#cut)
    const inside = rows.filter((row) => timeOf(row) >= covered.from && timeOf(row) < covered.to)
    const page = { series: this.#series, covered, shown: this.#walked, wanted: claimed, rows: inside, receivedAt }
    const { inserted, refusal, isForAll = false, refused = [], cut = null } = await store(page)
    this.#context.counts.inserted += inserted
    if (refusal !== undefined) {
      await this.#refuse(isForAll ? union(this.#left, this.#cut) : claimed, refusal)
      this.#cut = []
      if (isForAll) this.#refusalOfAll = refusal
      return
    }
    this.#refused = union(this.#refused, refused)
    this.#left = subtract(this.#left, wanted)
    this.#cut = cut === null ? [] : intersect(claimed, [cut])
    if (cut !== null) this.#left = union(this.#left, [{ from: cut.from, to: covered.from }])
  }

  async #refuse(parts: Ranges, reason: string): Promise<void> {
    for (const part of parts) await this.#source.explain?.(this.#series, part, reason)
    this.#refused = union(this.#refused, parts)
    this.#left = subtract(this.#left, parts)
  }
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
