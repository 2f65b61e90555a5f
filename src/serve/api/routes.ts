import type { Status } from './contract.js'
import type { MarketResponses } from './marketContract.js'
import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { streamSSE } from 'hono/streaming'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import type { RecorderDatabase } from '../../db/database.js'
import {
  type MarketRow,
  latestBook,
  latestTicker,
  newestFills,
  priceCurves,
  readMarket,
  tickerHistory,
} from '../../ledger/read/market.js'
import { newestCandles, readCandles } from '../../ledger/read/candles.js'
import { coverageCalendar, emptyRanges, seriesRanges, type SeriesDay } from '../../ledger/read/coverage.js'
import { busiestInstrument, findInstrument, searchInstruments } from '../../ledger/read/instruments.js'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { TimeRange } from '../../market/timeRange.js'
import { type CandleSeries, closeTime, intervalMs } from '../../market/candle.js'
import type { Series } from '../../db/series.js'
import { addMs, dayMs, hourMs, type ServiceMs, serviceMs } from '../../market/values.js'
import { EventHub } from '../events.js'
import { endpoints, events } from './endpoints.js'

/** Dependencies of the routes. */
interface ApiContext {
  /** Read-only connections for the page alone, so that a busy page takes none from the recording. */
  readonly database: RecorderDatabase
  readonly clock: Clock
  readonly logger: Logger
  readonly status: () => Promise<Status>
  /** Returns the time by the service's clock, as far as it is known. */
  readonly marketNow: () => Promise<ServiceMs>
}

const longestDetailMs = 31 * dayMs
/** Approximate number of points in a curve as wide as the page. */
const historyPoints = 240
const shownFills = 30
/** Age up to which a row tells about a moment of the past. */
const pastReachMs = 10 * 60_000
const marketEveryMs = 4_000
/** Largest number of open pages. Each holds a connection, and a browser opens at most six per host. */
const maxPages = 200

const fresh = { 'Cache-Control': 'no-store' }

/** Adds the API. It only reads, and can change nothing. Returns the hub of its events. */
export function addRoutes(
  app: OpenAPIHono,
  { database: { db }, clock, logger, status, marketNow }: ApiContext,
): EventHub {
  const hub = new EventHub(
    { status, instrument: async (series) => instrumentNow(db, series, await marketNow()) },
    clock,
    logger,
  )
  addEvents(app, hub)
  app.openapi(endpoints['/api/status'], async (context) => context.json(await status(), 200, fresh))

  addInstruments(app, db, marketNow)
  addMarket(app, db, clock, marketNow)
  addCoverage(app, db, marketNow)
  return hub
}

type Db = RecorderDatabase['db']

function addEvents(app: OpenAPIHono, hub: EventHub): void {
  app.openapi(events, (context) => {
    const { category, symbol, type, interval } = context.req.valid('query')
    if ((category === undefined) !== (symbol === undefined)) {
      throw badRequest('category, symbol: an instrument needs both')
    }
    // Nobody reads the stream of a HEAD request, and nothing would end it.
    if (context.req.method === 'HEAD') return context.body(null, 200, { 'Content-Type': 'text/event-stream' })
    if (hub.size >= maxPages) return context.json({ error: `${maxPages} pages are open already; close some` }, 503)
    const series = category === undefined || symbol === undefined ? null : { category, symbol, type, interval }
    return streamEvents(context, hub, series)
  })
}

function addInstruments(app: OpenAPIHono, db: Db, marketNow: ApiContext['marketNow']): void {
  app.openapi(endpoints['/api/instruments'], async (context) => {
    const { search, category, limit } = context.req.valid('query')
    return context.json(
      { instruments: await searchInstruments(db, { text: search, category, limit }, await marketNow()) },
      200,
      fresh,
    )
  })

  app.openapi(endpoints['/api/instruments/busiest'], async (context) => {
    const key = await busiestInstrument(db, await marketNow())
    const found = key === null ? null : await findInstrument(db, key)
    return context.json({ instruments: found === null ? [] : [found] }, 200, fresh)
  })

  app.openapi(endpoints['/api/instrument'], async (context) => {
    const { depth, at, ...key } = context.req.valid('query')
    const past = at === undefined ? null : { from: serviceMs(at - pastReachMs), to: serviceMs(at) }
    const [instrument, shown] = await Promise.all([
      findInstrument(db, key),
      readInstrument(db, key, past ?? (await marketNow()), depth),
    ])
    return context.json({ instrument, ...shown }, 200, fresh)
  })
}

function addMarket(app: OpenAPIHono, db: Db, clock: Clock, marketNow: ApiContext['marketNow']): void {
  // All open pages share one result, because the query reads the newest ticker of thousands of instruments.
  let market: Promise<MarketRow[]> | undefined
  let marketMs = -Infinity
  app.openapi(endpoints['/api/market'], async (context) => {
    if (market === undefined || clock.monotonicMs() - marketMs > marketEveryMs) {
      marketMs = clock.monotonicMs()
      market = marketNow().then((now) => readMarket(db, now))
      market.catch(() => (market = undefined))
    }
    return context.json({ instruments: await market }, 200, fresh)
  })

  app.openapi(endpoints['/api/curves'], async (context) => {
    const keys = context.req
      .valid('query')
      .keys.split(',')
      .map((key) => {
        const [category = '', ...symbol] = key.split(':')
        return { category: category as Category, symbol: symbol.join(':') }
      })
    return context.json({ curves: await priceCurves(db, keys, await marketNow()) }, 200, fresh)
  })

  app.openapi(endpoints['/api/candles'], async (context) => {
    const { before, limit, ...series } = context.req.valid('query')
    return context.json(
      await candlesResponse(
        db,
        series,
        before === undefined ? addMs(await marketNow(), hourMs) : serviceMs(before),
        limit,
      ),
      200,
      fresh,
    )
  })

  app.openapi(endpoints['/api/history'], async (context) => {
    const { hours, ...key } = context.req.valid('query')
    const now = await marketNow()
    const stepMs = Math.max(5_000, (hours * hourMs) / historyPoints)
    const points = await tickerHistory(db, key, { from: addMs(now, -hours * hourMs), to: addMs(now, 60_000) }, stepMs)
    return context.json({ points, stepMs }, 200, fresh)
  })
}

function addCoverage(app: OpenAPIHono, db: Db, marketNow: ApiContext['marketNow']): void {
  app.openapi(endpoints['/api/calendar'], async (context) => {
    const { search, days, to, ...filter } = context.req.valid('query')
    const now = await marketNow()
    const end = serviceMs((Math.floor((to ?? now) / dayMs) + 1) * dayMs)
    const range = { from: addMs(end, -days * dayMs), to: end }
    const found = await coverageCalendar(db, { text: search, ...filter }, range)
    const series = found.series.map(({ series: key, days: known }) => ({
      ...key,
      type: key.type === '' ? null : key.type,
      interval: key.interval === '' ? null : key.interval,
      days: known.map((day) => dayStatus(day, key, now)),
    }))
    return context.json({ ...range, total: found.total, series }, 200, fresh)
  })

  app.openapi(endpoints['/api/coverage'], async (context) => {
    const { from, to, type, interval, ...key } = context.req.valid('query')
    if (from >= to) throw badRequest('to: must be later than from')
    if (to - from > longestDetailMs) throw badRequest('to: must be at most 31 days after from')
    if ((key.stream === 'candles') !== (type !== undefined && interval !== undefined)) {
      throw badRequest('type, interval: candles need both, the other streams have neither')
    }
    const series: Series = { ...key, type: type ?? '', interval: interval ?? '' }
    const range = { from: serviceMs(from), to: serviceMs(to) }
    const [ranges, empty] = await Promise.all([seriesRanges(db, series, range), emptyRanges(db, series, range)])
    return context.json({ covered: [...ranges.covered], empty, gaps: [...ranges.gaps] }, 200, fresh)
  })
}

/** Error for a request that the API cannot serve. The message says what to change. */
function badRequest(message: string): HTTPException {
  return new HTTPException(400, { message })
}

async function candlesResponse(
  db: Db,
  series: CandleSeries,
  before: ServiceMs,
  limit: number,
): Promise<MarketResponses['candles']> {
  const { candles, source, hasOlder } = await readCandles(db, series, { before, limit })
  const first = candles[0]
  const last = candles.at(-1)
  if (first === undefined || last === undefined) return { candles: [], source, hasOlder, covered: [], gaps: [] }
  const { covered, gaps } = await seriesRanges(
    db,
    { stream: 'candles', ...series, interval: source },
    { from: first.openTime, to: closeTime(last.openTime, series.interval) },
  )
  return { candles: [...candles], source, hasOlder, covered: [...covered], gaps: [...gaps] }
}

function streamEvents(context: Context, hub: EventHub, series: CandleSeries | null): Response {
  const { outgoing } = context.env as Partial<HttpBindings>
  return streamSSE(context, async (stream) => {
    const gone = new Promise<void>((resolve) => stream.onAbort(resolve))
    const remove = hub.add({
      series,
      send: (event, data) => stream.writeSSE({ event, data, retry: 1000 }),
      drop: () => {
        outgoing?.destroy()
        stream.abort()
      },
    })
    await gone
    remove()
  })
}

/** Reads the newest data of an instrument, for open pages that show it. */
async function instrumentNow(db: Db, series: CandleSeries, now: ServiceMs): Promise<MarketResponses['event']> {
  const [shown, candles] = await Promise.all([
    readInstrument(db, series, now, 15),
    newestCandles(db, series, { before: addMs(now, hourMs), limit: 3 }),
  ])
  return { ...shown, candles: [...candles] }
}

/** Reads ticker, book and fills of a time: the newest of the last day and hour, or those within a range. */
async function readInstrument(db: Db, key: InstrumentKey, time: ServiceMs | TimeRange, depth: number) {
  // Rows may be newer than the time that is known of the service.
  const since = (ms: number) => (typeof time === 'number' ? { from: addMs(time, -ms), to: addMs(time, hourMs) } : time)
  const [ticker, book, fills] = await Promise.all([
    latestTicker(db, key, since(dayMs)),
    latestBook(db, key, since(dayMs), depth),
    newestFills(db, key, since(hourMs), shownFills),
  ])
  return { ticker, book, fills }
}

type DayStatus = 'none' | 'missing' | 'complete' | 'partial' | 'lost' | 'empty'

/** Allowed lag of today's proven coverage, milliseconds. Candles need time to close, fills to happen, funding to settle. */
const lagMs = 10 * 60_000
const settlesEveryMs = 8 * hourMs

/** Returns one word for a day of a series. What follows the newest proven moment of today does not count for a while. */
export function dayStatus(
  day: SeriesDay,
  { stream, interval }: Pick<Series, 'stream' | 'interval'>,
  now: ServiceMs,
): DayStatus {
  if (day.lostMs > 0) return 'lost'
  if (day.coveredMs <= 0) return day.openGapMs > 0 ? 'missing' : 'none'
  const everyMs = interval !== '' ? intervalMs[interval] : stream === 'funding_rates' ? settlesEveryMs : 0
  const coveredTo = day.coveredTo ?? day.day
  const expectedMs = coveredTo > now - lagMs - everyMs ? coveredTo - day.day : dayMs
  if (day.openGapMs > 0 || day.coveredMs < expectedMs) return 'partial'
  return day.hasRows ? 'complete' : 'empty'
}
