import type { Kysely } from 'kysely'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { type FutureKey, type InstrumentKey, isFuture } from '../market/category.js'
import {
  fundingPageRows,
  type FundingRate,
  fundingReachMs,
  type Liquidation,
  liquidationPageRows,
  liquidationReachMs,
  longestFundingMs,
} from '../market/funding.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import { addMs, earlierOf, laterOf, type ServiceMs, serviceMs, smallest } from '../market/values.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { missingRows } from '../ledger/batch.js'
import { liquidationText, storeFundingRates, storeLiquidations } from '../ledger/futures.js'
import type { EventContext, EventHistory, EventOutcome, EventSeries } from './sliceWork.js'

export function fundingHistory(db: Kysely<Database>): EventHistory {
  const source: NumberedHistory<FundingRate> = {
    pageRows: fundingPageRows,
    reachMs: fundingReachMs,
    silentBelowMs: longestFundingMs,
    ask: (client, { series, page }, request) =>
      client.fundingRates({ ...futureOf(series), cursor: page, limit: fundingPageRows }, request),
    textOf: ({ ts }) => String(ts),
    async store({ series, covered, wanted, rows }) {
      const { inserted, proven } = await inTransaction(db, (trx) =>
        storeFundingRates(trx, futureOf(series), rows, covered),
      )
      return { inserted, refused: subtract(wanted, proven) }
    },
  }
  return { operationOf: () => 'history-fund-rate', fetch: (...what) => fetchNumbered(source, ...what) }
}

/** Makes the history of liquidations, in which each page names the next one. */
export function liquidationHistory(db: Kysely<Database>): EventHistory {
  const source: NumberedHistory<Liquidation> = {
    pageRows: liquidationPageRows,
    reachMs: liquidationReachMs,
    silentBelowMs: Number.POSITIVE_INFINITY,
    ask: (client, { series, cursor }, request) =>
      client.liquidations(
        { ...futureOf(series), limit: liquidationPageRows, ...(cursor !== undefined && { cursor }) },
        request,
      ),
    textOf: liquidationText,
    store: ({ series, covered, rows }) =>
      inTransaction(db, (trx) => storeLiquidations(trx, futureOf(series), rows, covered)),
  }
  return { operationOf: () => 'liquidations', fetch: (...what) => fetchNumbered(source, ...what) }
}

function futureOf({ category, symbol }: InstrumentKey): FutureKey {
  const key = { category, symbol }
  if (isFuture(key)) return key
  throw new RangeError(`${category} ${symbol} is no future`)
}

/** A request for one page. */
interface NumberedQuery {
  readonly series: EventSeries
  /** The number of the page, from 1 for the newest rows. */
  readonly page: number
  /** Name of this page, as the page before gave it. */
  readonly cursor: string | undefined
}

/** Part of a history that the pages so far show completely. */
interface NumberedPart<Row> {
  readonly series: EventSeries
  /** The range of time of which every row is shown. */
  readonly covered: TimeRange
  /** The wanted parts of `covered`. */
  readonly wanted: Ranges
  /** The rows of `covered`, and those of the page that are just below it. They show that no row between is missing. */
  readonly rows: readonly Row[]
}

/** A history whose pages are counted from the newest row of all, whatever is wanted. */
interface NumberedHistory<Row> {
  /** The largest number of rows in a page. */
  readonly pageRows: number
  /** Age beyond which the service gives no rows. */
  readonly reachMs: number
  /** How long before its oldest row the last page proves that there is no row. */
  readonly silentBelowMs: number
  readonly ask: (client: ExchangeClient, query: NumberedQuery, request: RequestOptions) => Promise<Page<Row>>
  /** Returns a text that tells rows apart. Rows with equal texts are told apart by their places. */
  readonly textOf: (row: Row) => string
  /** Stores rows and what they prove in one transaction. `refused` are wanted parts that are not claimed. */
  readonly store: (part: NumberedPart<Row>) => Promise<{ readonly inserted: number; readonly refused?: Ranges }>
}

/** Fetches ranges from numbered pages, the newest page first, until everything wanted was shown or the pages end. */
export async function fetchNumbered<Row extends { readonly ts: ServiceMs }>(
  history: NumberedHistory<Row>,
  series: EventSeries,
  ranges: Ranges,
  { client, request, ask, now, counts }: EventContext,
): Promise<EventOutcome> {
  const { pageRows, reachMs, silentBelowMs, textOf } = history
  let left: Ranges = normalized(ranges)
  let refused: Ranges = []
  let cursor: string | undefined
  /** Rows that the next page may repeat, and all rows that are not stored yet. */
  let shown: readonly Row[] = []
  /** Time from which every row was shown. */
  let shownFrom = serviceMs(Infinity)
  for (let page = 1, top = left.at(-1); top !== undefined; page++, top = left.at(-1)) {
    const query = { series, page, cursor }
    const response = await ask(() => history.ask(client, query, request))
    counts.received += response.rows.length
    // A page with rejected rows cannot be joined to the next page, so the walk ends.
    if (missingRows(response) > 0) break
    cursor = response.cursor
    const isLast = response.rows.length < pageRows && cursor === undefined
    const rows = joinPages(shown, response.rows, textOf)
    const oldest = smallest(rows.map(({ ts }) => ts))
    const silentFrom = laterOf(addMs(oldest, -silentBelowMs), earlierOf(oldest, addMs(now(), -reachMs)))
    // More rows of the oldest millisecond may be on the next page.
    const from = isLast ? silentFrom : addMs(oldest, 1)
    const covered = { from, to: earlierOf(top.to, shownFrom) }
    const wanted = covered.from < covered.to ? intersect(left, [covered]) : []
    if (wanted.length > 0) {
      const stored = await history.store({ series, covered, wanted, rows: rows.filter(({ ts }) => ts < covered.to) })
      counts.inserted += stored.inserted
      refused = union(refused, stored.refused ?? [])
      left = subtract(left, wanted)
    }
    const hasNew = rows.length > shown.length
    if (isLast || !hasNew) break
    shownFrom = earlierOf(shownFrom, from)
    // The next page repeats no more rows than a page holds, so earlier rows that are stored are dropped.
    const repeatedFrom = rows.length - Math.max(pageRows, response.rows.length)
    shown = rows.filter((row, place) => place >= repeatedFrom || row.ts < shownFrom)
  }
  return { refused: union(refused, left) }
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
