import type { Kysely } from 'kysely'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { type FutureKey, type InstrumentKey, isFuture } from '../market/category.js'
import { fundingPageRows, type FundingRate, type Liquidation, liquidationPageRows } from '../market/funding.js'
import { intersect, normalized, type Ranges, subtract, union } from '../market/timeRange.js'
import { addMs, earlierOf, laterOf, type ServiceMs } from '../market/values.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { missingRows } from '../ledger/batch.js'
import { eventLateMs, liquidationText, storeFundingRates, storeLiquidations } from '../ledger/futures.js'
import { recordGap } from '../ledger/gaps.js'
import { provenBy, runOf } from '../ledger/run.js'
import type { EventContext, EventHistory, EventOutcome, EventSeries } from './sliceWork.js'

export function fundingHistory(db: Kysely<Database>): EventHistory {
  const source: PagedHistory<FundingRate> = {
    ...pagesShown(),
    pageRows: fundingPageRows,
    next: nextNumbered,
    ask: (client, { series, page, limit }, request) =>
      client.fundingRates({ ...futureOf(series), cursor: page, limit }, request),
    textOf: ({ ts }) => String(ts),
    store: ({ series, rows, proven, silent }) =>
      inTransaction(db, (trx) => storeFundingRates(trx, futureOf(series), rows, proven, silent)),
    explain: () => Promise.resolve(),
  }
  return { operationOf: () => 'history-fund-rate', fetch: (...what) => fetchPages(source, ...what) }
}

const noFurtherPage = 'its operation names no further page, so that nothing beyond this one can be requested'

/** Makes the history of liquidations, in which each page names the next one. */
export function liquidationHistory(db: Kysely<Database>): EventHistory {
  const source: PagedHistory<Liquidation> = {
    ...pagesShown(),
    pageRows: liquidationPageRows,
    next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: liquidationPageRows, cursor }),
    ask: (client, { series, limit, cursor }, request) =>
      client.liquidations({ ...futureOf(series), limit, ...(cursor !== undefined && { cursor }) }, request),
    textOf: liquidationText,
    store: ({ series, rows, proven, silent }) =>
      inTransaction(db, (trx) => storeLiquidations(trx, futureOf(series), rows, union(proven, silent))),
    async explain(series, ranges) {
      for (const range of ranges) await recordGap(db, { ...series, range, reason: noFurtherPage })
    },
  }
  return { operationOf: () => 'liquidations', fetch: (...what) => fetchPages(source, ...what) }
}

function futureOf({ category, symbol }: InstrumentKey): FutureKey {
  const key = { category, symbol }
  if (isFuture(key)) return key
  throw new RangeError(`${category} ${symbol} is no future`)
}

/** A request for one page: by its number from 1, or by the name that the page before gave. */
interface PageQuery {
  readonly page: number
  readonly limit: number
  readonly cursor?: string
}

/** Part of a history that the pages so far show completely. */
interface PagedPart<Row> {
  readonly series: EventSeries
  /** The rows of the page, and all rows that were shown of the time that is proven. */
  readonly rows: readonly Row[]
  /** Time that the joined pages prove with their rows. */
  readonly proven: Ranges
  /** Time beyond all rows that two pages showed to be silent. */
  readonly silent: Ranges
}

/** The most that a history has shown of a category. It tells what pages without rows are worth. */
interface PagesShown {
  /** The largest number of rows in a page. A page that has as many may be cut. */
  readonly largest: Map<string, number>
  /** Time of the oldest row. The history is known to reach back to it. */
  readonly oldest: Map<string, ServiceMs>
}

const pagesShown = (): PagesShown => ({ largest: new Map(), oldest: new Map() })

/** A history whose pages are counted from the newest row of all, or from the oldest, whatever is wanted. */
interface PagedHistory<Row> extends PagesShown {
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
  /** Notes that ranges cannot be requested, because no page is named that would hold them. */
  readonly explain: (series: EventSeries, ranges: Ranges) => Promise<void>
}

/**
 * Returns the numbered page that shows most new rows and still one of the rows before. New rows move pages down, so a
 * page that only adjoins proves nothing. A smaller limit makes pages overlap.
 */
export function nextNumbered(shown: number, { limit: largest }: PageQuery): PageQuery {
  let best: PageQuery = { page: 2, limit: Math.min(largest, shown - 1) }
  for (let page = 2; page <= shown; page++) {
    const limit = Math.min(largest, Math.floor((shown - 1) / (page - 1)))
    if (page * limit > best.page * best.limit) best = { page, limit }
  }
  return best
}

/** Fetches ranges page by page, until everything wanted was shown or nothing new comes. */
export function fetchPages<Row extends { readonly ts: ServiceMs }>(
  history: PagedHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  return new PagesWalk(history, series, ranges, context).run()
}

class PagesWalk<Row extends { readonly ts: ServiceMs }> {
  readonly #history: PagedHistory<Row>
  readonly #series: EventSeries
  readonly #context: EventContext
  #left: Ranges
  /** The rows of all joined pages. */
  #rows: readonly Row[] = []
  #claimed: Ranges = []
  /** Milliseconds in which equal rows stand on both sides of a seam. */
  #seams: Ranges = []
  #lastRows = 0

  constructor(history: PagedHistory<Row>, series: EventSeries, ranges: Ranges, context: EventContext) {
    this.#history = history
    this.#series = series
    this.#context = context
    this.#left = normalized(ranges)
  }

  async run(): Promise<EventOutcome> {
    const { pageRows, next, explain } = this.#history
    let limit = pageRows
    for (let query: PageQuery | null = { page: 1, limit: pageRows }; query !== null && this.#left.length > 0;) {
      const response: Page<Row> = await this.#ask(query)
      const joined = this.#join(response, query)
      if (joined === null) break
      const hasNew = joined.length > this.#rows.length
      if (hasNew) await this.#store(joined, response)
      // A page that is shorter than its limit is the last one, or limits are cut.
      if (response.rows.length < query.limit) limit = Math.max(response.rows.length, 2)
      query = hasNew ? next(joined.length, { ...query, limit }, response.cursor) : null
      if (query !== null) continue
      if (this.#isCut()) await explain(this.#series, this.#left)
      else await this.#storeSilence(response.requestTime)
    }
    return { refused: this.#left }
  }

  async #ask(query: PageQuery): Promise<Page<Row>> {
    const { ask, client, counts, request } = this.#context
    const response = await ask(() => this.#history.ask(client, { ...query, series: this.#series }, request))
    counts.received += response.rows.length
    this.#lastRows = response.rows.length
    const { category } = this.#series
    this.#history.largest.set(category, Math.max(this.#history.largest.get(category) ?? 0, this.#lastRows))
    return response
  }

  /** Returns the rows so far with those of a page; null if the page does not join them. */
  #join(response: Page<Row>, { cursor }: PageQuery): readonly Row[] | null {
    // A page with rejected rows cannot be joined to the next page, so the walk ends.
    if (missingRows(response) > 0) return null
    const joined = joinPages(this.#rows, response.rows, this.#history.textOf)
    const repeated = this.#rows.length + response.rows.length - joined.length
    const last = this.#rows.at(-1)
    if (last === undefined || response.rows.length === 0) return joined
    if (cursor === undefined) return repeated > 0 ? joined : null
    if (repeated > 0) this.#seams = union(this.#seams, [{ from: last.ts, to: addMs(last.ts, 1) }])
    return joined
  }

  async #store(joined: readonly Row[], { rows: page, requestTime }: Page<Row>): Promise<void> {
    const { oldest } = this.#history
    const [run, pageRun] = [runOf(joined.map(({ ts }) => ts)), runOf(page.map(({ ts }) => ts))]
    this.#rows = joined
    if (run === null || pageRun === null) return
    const { category } = this.#series
    oldest.set(category, earlierOf(oldest.get(category) ?? run.oldest, run.oldest))
    const whole = provenBy(run, addMs(requestTime, -eventLateMs))
    const proven = subtract(whole, union(this.#claimed, this.#seams))
    this.#claimed = union(this.#claimed, proven)
    const from = earlierOf(pageRun.oldest, proven[0]?.from ?? pageRun.oldest)
    const to = laterOf(pageRun.newest, proven.at(-1)?.to ?? pageRun.newest)
    await this.#claim({ rows: joined.filter(({ ts }) => ts >= from && ts <= to), proven, silent: [] })
  }

  async #claim(part: Omit<PagedPart<Row>, 'series'>): Promise<void> {
    const { inserted, proven } = await this.#history.store({ series: this.#series, ...part })
    this.#context.counts.inserted += inserted
    this.#left = subtract(this.#left, proven)
  }

  #isCut(): boolean {
    return this.#lastRows >= (this.#history.largest.get(this.#series.category) ?? 0)
  }

  /** Claims the time beyond all rows that the last page and one with another limit showed to be silent. */
  async #storeSilence(requestTime: ServiceMs): Promise<void> {
    const { pageRows, oldest, textOf } = this.#history
    const run = runOf(this.#rows.map(({ ts }) => ts))
    if (run === null || this.#left.length === 0) return
    const again = await this.#ask({ page: 1, limit: pageRows - 1 })
    const known = new Set(this.#rows.map(textOf))
    const areKnown = again.rows.length > 0 && again.rows.every((row) => known.has(textOf(row)))
    if (missingRows(again) > 0 || !areKnown) return
    const beyond = normalized([
      { from: oldest.get(this.#series.category) ?? run.oldest, to: addMs(run.oldest, 1) },
      { from: run.newest, to: addMs(requestTime, -eventLateMs) },
    ])
    await this.#claim({ rows: this.#rows, proven: [], silent: intersect(this.#left, beyond) })
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
  const ends = above.slice(above.length - repeated).map(textOf)
  const begins = page.map(textOf)
  const isRepetition = () => ends.slice(ends.length - repeated).every((text, place) => text === begins[place])
  while (!isRepetition()) repeated--
  return [...above, ...page.slice(repeated)]
}
