import type { z } from 'zod'
import type { Clock } from '../../runtime/clock.js'
import type { RecorderDatabase } from '../../db/database.js'
import { latestBook } from '../../ledger/read/books.js'
import { readCandles } from '../../ledger/read/candles.js'
import { coverageCalendar, emptyRanges, seriesRanges } from '../../ledger/read/coverage.js'
import { busiestInstrument, findInstrument, searchInstruments } from '../../ledger/read/instruments.js'
import { latestTicker, tickerHistory } from '../../ledger/read/tickers.js'
import { type CandleSeries, closeTime } from '../../market/candle.js'
import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import type * as contract from './contract.js'
import { type ApiPath, endpoints } from './endpoints.js'
import { BadRequest } from './badRequest.js'
import { dayStatus } from './dayStatus.js'

/** What the routes respond from. */
export interface ApiContext {
  /** Read-only connections of its own, so that a busy page never takes one from the recording. */
  readonly database: RecorderDatabase
  readonly clock: Clock
  status(): Promise<contract.Status>
}

export interface ApiRoute<Query extends z.ZodType = z.ZodType, Response extends z.ZodType = z.ZodType> {
  readonly path: string
  readonly summary: string
  readonly query: Query
  readonly response: Response
  respondTo(context: ApiContext, query: z.output<Query>): Promise<z.output<Response>>
}

const longestDetailMs = 31 * dayMs
/** About so many points make a curve of the page's width. */
const historyPoints = 240

type Endpoint<Path extends ApiPath> = (typeof endpoints)[Path]

function route<Path extends ApiPath>(
  path: Path,
  rest: Pick<ApiRoute<Endpoint<Path>['query'], Endpoint<Path>['response']>, 'summary' | 'respondTo'>,
): ApiRoute {
  return { path, ...endpoints[path], ...rest }
}

/** All of the API besides the stream of events: everything is read, nothing can be changed. */
export const routes: readonly ApiRoute[] = [
  route('/api/status', {
    summary: 'How the recorder is doing.',
    respondTo: (context) => context.status(),
  }),
  route('/api/instruments', {
    summary: 'Search for instruments.',
    async respondTo({ database }, { search, category, limit }) {
      return { instruments: await searchInstruments(database.db, { text: search, category, limit }) }
    },
  }),
  route('/api/instruments/busiest', {
    summary: 'The instrument with the highest turnover of those with candles.',
    async respondTo({ database }) {
      const key = await busiestInstrument(database.db)
      const found = key === null ? null : await findInstrument(database.db, key)
      return { instruments: found === null ? [] : [found] }
    },
  }),
  route('/api/instrument', {
    summary: 'An instrument with its newest ticker and order book.',
    async respondTo({ database: { db } }, { category, symbol, depth }) {
      const key = { category, symbol }
      const [instrument, ticker, book] = await Promise.all([
        findInstrument(db, key),
        latestTicker(db, key),
        latestBook(db, key, depth),
      ])
      return { instrument, ticker, book }
    },
  }),
  route('/api/candles', {
    summary: 'Candles of a series, the newest before a moment, with what is proven and what is missing among them.',
    async respondTo({ database, clock }, { before, limit, ...series }) {
      return candlesResponse(database, series, before ?? clock.now() + dayMs, limit)
    },
  }),
  route('/api/history', {
    summary: 'Funding rate and spread of an instrument over the last hours.',
    async respondTo({ database, clock }, { category, symbol, hours }) {
      const now = clock.now()
      const stepMs = Math.max(5_000, (hours * hourMs) / historyPoints)
      const range = { from: now - hours * hourMs, to: now + 60_000 }
      return { points: await tickerHistory(database.db, { category, symbol }, range, stepMs), stepMs }
    },
  }),
  route('/api/calendar', {
    summary: 'How complete each series is, day by day (UTC); those with gaps first.',
    async respondTo({ database, clock }, { search, days, to, ...filter }) {
      const now = clock.now()
      const end = (Math.floor((to ?? now) / dayMs) + 1) * dayMs
      const range = { from: end - days * dayMs, to: end }
      const { series, total } = await coverageCalendar(database.db, { text: search, ...filter }, range)
      return {
        ...range,
        total,
        series: series.map(({ series: key, days: known }) => ({
          ...key,
          days: known.map((day) => dayStatus(day, key.interval, now)),
        })),
      }
    },
  }),
  route('/api/coverage', {
    summary: 'The exact ranges of a series: proven, without a trade, and gaps.',
    async respondTo({ database: { db } }, { from, to, type = null, interval = null, ...key }) {
      if (from >= to) throw new BadRequest('to: must be later than from')
      if (to - from > longestDetailMs) throw new BadRequest('to: must be at most 31 days after from')
      if ((key.stream === 'candles') !== (type !== null && interval !== null)) {
        throw new BadRequest('type, interval: candles need both, the other streams have neither')
      }
      const series = { ...key, type, interval }
      const [ranges, empty] = await Promise.all([
        seriesRanges(db, series, { from, to }),
        emptyRanges(db, series, { from, to }),
      ])
      return { covered: [...ranges.covered], empty, gaps: [...ranges.gaps] }
    },
  }),
]

async function candlesResponse(
  database: RecorderDatabase,
  series: CandleSeries,
  before: TimeMs,
  limit: number,
): Promise<contract.CandlesResponse> {
  const { candles, source, hasOlder } = await readCandles(database.db, series, { before, limit })
  const first = candles[0]
  const last = candles.at(-1)
  if (first === undefined || last === undefined) return { candles: [], source, hasOlder, covered: [], gaps: [] }
  const { covered, gaps } = await seriesRanges(
    database.db,
    { stream: 'candles', ...series, interval: source },
    { from: first.openTime, to: closeTime(last.openTime, series.interval) },
  )
  return { candles: [...candles], source, hasOlder, covered: [...covered], gaps: [...gaps] }
}

/** The newest of an instrument, for those who watch it. */
export async function instrumentNow(
  { database: { db }, clock }: ApiContext,
  series: CandleSeries,
): Promise<contract.InstrumentEvent> {
  const [ticker, book, page] = await Promise.all([
    latestTicker(db, series),
    latestBook(db, series, 15),
    readCandles(db, series, { before: clock.now() + dayMs, limit: 3 }),
  ])
  return { ticker, book, candles: [...page.candles] }
}
