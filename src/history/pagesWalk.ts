import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { bounds } from '../market/bounds.js'
import { intersect, normalized, type Ranges, subtract, union } from '../market/timeRange.js'
import { addMs, earlierOf, laterOf, type ServiceMs, serviceMs, sum } from '../market/values.js'
import { missingRows } from '../ledger/batch.js'
import { eventLateMs } from '../ledger/futures.js'
import { provenBy, runOf } from '../ledger/run.js'
import { ascends, countRepeated, type PageQuery, ShownRows } from './joinPages.js'
import { type EventContext, type EventOutcome, type EventSeries, nothingOlder, WalkTooLong } from './sliceWork.js'

/** Part of a history that the pages so far show completely. */
interface PagedPart<Row> {
  readonly series: EventSeries
  /** The rows of the page, and all rows that were shown of the time that is proven. */
  readonly rows: readonly Row[]
  /** Time that the joined pages prove with their rows. */
  readonly proven: Ranges
  /** The wanted part of the time beyond all rows that two pages showed to be silent. */
  readonly silent: Ranges
  /** All of that time. A stored row in it that is not among `rows` denies the silence. */
  readonly beyond: Ranges
}

/** A history whose pages are counted from the newest row of all, or from the oldest, whatever is wanted. */
export interface PagedHistory<Row> {
  /** The largest age of a row when it was shown, by category. The history is known to reach back so far. */
  readonly reachMs: Map<string, number>
  /** The largest number of rows to request. */
  readonly pageRows: number
  /** Returns the page after those that show so many rows; null if there is no way to request it. */
  readonly next: (shown: number, query: PageQuery, cursor: string | undefined) => PageQuery | null
  readonly ask: (
    client: ExchangeClient,
    query: PageQuery & { readonly series: EventSeries },
    request: RequestOptions,
  ) => Promise<Page<Row>>
  /** Returns a text that tells rows apart. Rows with equal texts are told apart by their places. */
  readonly textOf: (row: Row) => string
  /** Stores rows and what they prove in one transaction. Resolves to what is claimed. */
  readonly store: (part: PagedPart<Row>) => Promise<{ readonly inserted: number; readonly proven: Ranges }>
  /** Notes why ranges below the newest row stay unproven. */
  readonly explain: (series: EventSeries, ranges: Ranges, reason: string) => Promise<void>
  /** Returns the page that begins with the row after those shown. Without it, only cursors tell where rows end. */
  readonly beyond?: (shown: number, largest: number) => PageQuery
}

/** Fetches ranges page by page, until everything wanted was shown or nothing new comes. */
export function fetchPages<Row extends { readonly ts: ServiceMs }>(
  history: PagedHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  const walk = new PagesWalk(history, series, ranges, context)
  return walk.run().finally(() => (heldByAllWalks.length -= walk.length))
}

const noFurtherPage = 'its operation names no further page, so that nothing beyond this one can be requested'
const notContinued = 'a further page of its operation does not continue the page before'
const notUnderstood = 'a page of its operation has rows that cannot be understood'
const notConfirmed = 'its operation does not show twice that it has no more rows'
const tooMuch = 'its pages are longer together than what is held of them'
const tooOften = 'its pages show the times of the same rows again and again'
const heldByAllWalks = { length: 0 }

/** A page with as many rows still has several when its last one is taken away. */
export const fewestRows = 3

/** The rest of a page that was shown. Its rows would take too much memory until the walk ends. */
interface PageRest {
  readonly query: PageQuery
  readonly rows: number
  /** The texts that tell its first and its last row from others. */
  readonly first: string | undefined
  readonly last: string | undefined
  readonly requestTime: ServiceMs
  readonly cursor: string | undefined
  /** True if all of it could be understood, and all its rows are joined. */
  readonly isShown: boolean
}

interface Sides {
  readonly newest: ServiceMs
  readonly isOneTime: boolean
  readonly first: Ranges
  readonly last: Ranges
  readonly end: Ranges
}

class PagesWalk<Row extends { readonly ts: ServiceMs }> {
  readonly #history: PagedHistory<Row>
  readonly #series: EventSeries
  readonly #context: EventContext
  readonly #pages: PageRest[] = []
  #left: Ranges
  readonly #shown: ShownRows<Row>
  #claimed: Ranges = []
  /** Length of all rows that were shown, as JSON. */
  length = 0
  /** Number of rows that were stored, each as often as it was. */
  #stored = 0
  /** Time at which a cursor joins pages, and which no page shows with rows on both sides. */
  #seams: Ranges = []
  /** The part of it that no page shows from its beginning. The end of the list does not tell how many rows it has. */
  #cut: Ranges = []

  constructor(history: PagedHistory<Row>, series: EventSeries, ranges: Ranges, context: EventContext) {
    this.#history = history
    this.#series = series
    this.#context = context
    this.#shown = new ShownRows(history.textOf)
    this.#left = normalized(ranges)
  }

  async run(): Promise<EventOutcome> {
    const reason = (await this.#walk()) ?? (await this.#confirm())
    // The newest edge is neither proven nor missing. One or two rows do not tell whether a list has an end.
    const sides = this.#shown.rows.length < fewestRows ? null : this.#sides()
    const below = sides === null ? [] : subtract(this.#left, [{ from: sides.newest, to: serviceMs(Infinity) }])
    if (below.length > 0) await this.#history.explain(this.#series, below, reason)
    return { refused: this.#left }
  }

  /** Fetches page after page. Resolves to the reason why a page proves nothing; null at the end of the pages. */
  async #walk(): Promise<string | null> {
    const { pageRows, next } = this.#history
    let limit = pageRows
    const cursors = new Set<string>()
    for (let query: PageQuery | null = { page: 1, limit: pageRows }; query !== null && this.#isMoreWanted();) {
      const response: Page<Row> = await this.#request(query)
      this.#hold(response)
      // A page with rejected rows cannot be joined to the next page.
      if (missingRows(response) > 0) return notUnderstood
      // Each page is compared with all before it, which are held until the end.
      if (this.length > bounds.walkLength || heldByAllWalks.length > bounds.walksLength) return tooMuch
      const further = this.#join(response, query)
      if (further === null) return notContinued
      this.#shown.add(further)
      this.#note(query, response)
      if (further.length > 0) await this.#store(response)
      // A page that is shorter than its limit is the last one, or limits are cut.
      if (response.rows.length < query.limit) limit = Math.max(response.rows.length, 2)
      const shownRows = this.#shown.rows.length
      const following: PageQuery | null =
        further.length > 0 ? next(shownRows, { ...query, limit }, response.cursor) : null
      const shown: PageQuery = query
      query = following
      if (following?.cursor === undefined || !this.#isMoreWanted()) continue
      const cursor: string = (await this.#earlierCursor(shown, response.rows)) ?? following.cursor
      query = { ...following, cursor }
      if (cursors.has(cursor)) return notContinued
      cursors.add(cursor)
    }
    return null
  }

  async #request(query: PageQuery): Promise<Page<Row>> {
    const { ask, client, counts, request } = this.#context
    const response = await ask(() => this.#history.ask(client, { ...query, series: this.#series }, request))
    counts.received += response.rows.length
    return response
  }

  /**
   * Requests a page again without its two oldest times, and returns the cursor of that. The next page then overlaps
   * this one. Otherwise a cursor that counts by time may leave out rows of this page's last millisecond.
   */
  async #earlierCursor(query: PageQuery, rows: readonly Row[]): Promise<string | undefined> {
    const times = rows.map(({ ts }) => ts)
    const third = [...new Set(times.toReversed())][2]
    if (third === undefined) return undefined
    return (await this.#request({ ...query, limit: this.#limitFor(times.lastIndexOf(third) + 1) })).cursor
  }

  /** Returns the limit with which so many rows are asked for. A page may have more rows than it was asked for. */
  #limitFor(rows: number): number {
    return Math.min(rows, this.#history.pageRows)
  }

  /** Requests a page that joins no further rows. */
  async #ask(query: PageQuery): Promise<Page<Row>> {
    const response = await this.#request(query)
    this.#hold(response)
    this.#note(query, response)
    return response
  }

  #hold({ rows }: Page<Row>): void {
    const length = sum(rows.map((row) => JSON.stringify(row).length))
    this.length += length
    heldByAllWalks.length += length
  }

  #note(query: PageQuery, response: Page<Row>): void {
    const { rows, requestTime, cursor } = response
    const isShown = missingRows(response) === 0 && rows.every((row) => this.#shown.has(row))
    const [first, last] = [rows[0], rows.at(-1)].map((row) => row && this.#history.textOf(row))
    this.#pages.push({ query, rows: rows.length, first, last, requestTime, cursor, isShown })
  }

  /** Returns the rows of a page that follow those so far; null if the page does not continue them. */
  #join({ rows: page }: Page<Row>, { cursor }: PageQuery): readonly Row[] | null {
    const { rows } = this.#shown
    const repeated = countRepeated(rows, page, this.#history.textOf)
    const last = rows.at(-1)
    if (last === undefined || page.length === 0) return page.slice(repeated)
    if (cursor === undefined) return repeated > 0 ? page.slice(repeated) : null
    const further = this.#shown.furtherOf(page, repeated)
    const disorderMs = further === null ? 0 : (this.#shown.runWith(further)?.disorderMs ?? 0)
    const seam = { from: addMs(last.ts, -disorderMs), to: addMs(last.ts, disorderMs + 1) }
    const whole = provenBy(runOf(page.map(({ ts }) => ts)), serviceMs(Infinity))
    const open = subtract([seam], whole)
    this.#seams = union(this.#seams, open)
    const [first = last] = page
    if (repeated === 0 || (first.ts >= seam.from && first.ts < seam.to)) this.#cut = union(this.#cut, open)
    return further
  }

  async #store({ rows: page, requestTime }: Page<Row>): Promise<void> {
    const { reachMs } = this.#history
    const { rows, run } = this.#shown
    const pageRun = runOf(page.map(({ ts }) => ts))
    if (run === null || pageRun === null) return
    const { category } = this.#series
    reachMs.set(category, Math.max(reachMs.get(category) ?? 0, requestTime - pageRun.oldest))
    // Later pages do not show again what the first one showed, so that they settle none of it.
    const settledUntil = addMs(this.#pages[0]?.requestTime ?? requestTime, -eventLateMs)
    const whole = provenBy(run, settledUntil)
    const proven = subtract(whole, union(this.#claimed, this.#seams))
    this.#claimed = union(this.#claimed, proven)
    const from = earlierOf(pageRun.oldest, proven[0]?.from ?? pageRun.oldest)
    const to = laterOf(pageRun.newest, proven.at(-1)?.to ?? pageRun.newest)
    await this.#claim({ rows: rows.filter(({ ts }) => ts >= from && ts <= to), proven, silent: [], beyond: [] })
  }

  async #claim(part: Omit<PagedPart<Row>, 'series'>): Promise<void> {
    this.#stored += part.rows.length
    if (this.#stored > 2 * this.#shown.rows.length + bounds.walkRepeats) throw new WalkTooLong(tooOften)
    const { inserted, proven } = await this.#history.store({ series: this.#series, ...part })
    this.#context.counts.inserted += inserted
    this.#left = subtract(this.#left, proven)
  }

  /**
   * Returns the time of the newest row, and the time beyond the first row of the list and beyond its last one. `end` is
   * not bounded by the reach. Rows of one time do not tell which side is which: both are then beyond the last row, and
   * `isOneTime` is true.
   */
  #sides(): Sides | null {
    const { rows, run } = this.#shown
    const [requested, latest] = [this.#pages[0], this.#pages.at(-1)].map((page) => page?.requestTime)
    if (run === null || requested === undefined || latest === undefined) return null
    // Rows leave the history with time, so that an age counts and no time.
    const reach = addMs(latest, -(this.#history.reachMs.get(this.#series.category) ?? 0))
    const below = normalized([{ from: earlierOf(reach, run.oldest), to: addMs(run.edge, 1) }])
    const above = normalized([{ from: run.newest, to: addMs(requested, -eventLateMs) }])
    const { newest } = run
    const older = [{ from: serviceMs(0), to: addMs(run.edge, 1) }]
    const isOneTime = rows[0]?.ts === rows.at(-1)?.ts
    if (isOneTime) return { newest, isOneTime, first: [], last: union(below, above), end: union(older, above) }
    return ascends(rows)
      ? { newest, isOneTime, first: below, last: above, end: above }
      : { newest, isOneTime, first: above, last: below, end: older }
  }

  /** Returns true if more is wanted than the first page tells. */
  #isMoreWanted(): boolean {
    return subtract(this.#left, this.#sides()?.first ?? []).length > 0
  }

  /** Claims the time beyond all rows that two pages show to be silent. Resolves to the reason why they may not. */
  async #confirm(): Promise<string> {
    const sides = this.#sides()
    if (sides === null) return notConfirmed
    const isWanted = (side: Ranges) => intersect(this.#left, side).length > 0
    const reason = isWanted(sides.end) ? await this.#confirmEnd() : notConfirmed
    const [first] = this.#shown.rows.slice(0, 1).map(this.#history.textOf)
    const begins = () =>
      this.#pages.filter((page) => page.isShown && page.query.page === 1 && !page.query.cursor && page.first === first)
    const isEnd = reason === nothingOlder
    const isBeginWanted = isWanted(sides.isOneTime && isEnd ? sides.last : sides.first)
    if (isBeginWanted && begins().length < 2) await this.#ask({ page: 1, limit: this.#history.pageRows - 1 })
    const isBegin = begins().length > 1
    for (const beyond of [isBegin ? sides.first : [], isEnd && (isBegin || !sides.isOneTime) ? sides.last : []]) {
      const silent = subtract(intersect(this.#left, beyond), this.#cut)
      // All rows are stored. Those at the edge tell whether another one is stored beyond them.
      const rows = this.#shown.rows.filter(({ ts }) => beyond.some(({ from, to }) => ts >= from && ts < to))
      if (silent.length > 0) await this.#claim({ rows, proven: [], silent, beyond })
    }
    return reason
  }

  /** Resolves to `nothingOlder` if a page ends with the last row, and another one shows that no further row follows. */
  async #confirmEnd(): Promise<string> {
    const { beyond, textOf } = this.#history
    const shown = this.#shown.rows.length
    const [row, page] = [this.#shown.rows.at(-1), this.#pages.at(-1)]
    // With one or two rows, nothing tells whether more came before them.
    if (row === undefined || page === undefined || shown < fewestRows) return notConfirmed
    const last = textOf(row)
    if (beyond === undefined) return this.#confirmCursor(page, last)
    const wereAsked = this.#pages.some((asked) => asked.query.page * asked.query.limit > shown && asked.last === last)
    const largest = this.#limitFor(Math.max(...this.#pages.map(({ rows }) => rows)))
    const { rows, rejected } = await this.#ask(beyond(shown, largest))
    return wereAsked && rows.length + rejected.length === 0 ? nothingOlder : notConfirmed
  }

  /**
   * Requests all rows but one of the last page, which must name a further one. That one must name none: with room for one
   * row, and with room for two, because a cursor that counts by time names no further row of the same one. A page may
   * have a row less than was asked for, so that one more is asked for then.
   */
  async #confirmCursor({ query, rows, cursor, ...page }: PageRest, last: string): Promise<string> {
    if (cursor !== undefined || page.last !== last) return notConfirmed
    const fewer = rows === 1 ? null : await this.#ask({ ...query, limit: this.#limitFor(rows - 1) })
    const isShort = fewer !== null && fewer.rows.length < rows - 1
    const more = isShort ? await this.#ask({ ...query, limit: this.#limitFor(rows) }) : fewer
    const before = (more ?? query).cursor ?? fewer?.cursor
    if (before === undefined) return noFurtherPage
    for (const limit of [1, 2]) {
      const end = await this.#ask({ ...query, limit, cursor: before })
      const isLast = missingRows(end) === 0 && end.rows.length === 1 && end.rows.map(this.#history.textOf)[0] === last
      if (!isLast || end.cursor !== undefined) return notConfirmed
    }
    return nothingOlder
  }
}
