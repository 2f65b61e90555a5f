import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { fundingHistory, liquidationHistory } from '../../../src/history/pastFutures.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { bounds } from '../../../src/market/bounds.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const category = 'USDT-FUTURES'
const base = Date.UTC(2026, 10, 20)
let now: number
let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  now = base
  await test.database.pool.query('truncate market.liquidations, market.funding_rates, recorder.ledger')
})

type Query = { readonly symbol: string; readonly limit: number; readonly cursor?: string | number }
type Shown = { readonly rows: readonly { readonly ts: number }[]; readonly cursor?: string }

/** Fetches a range from a service that shows pages. Resolves to the number of requests. */
async function fetchFrom(
  shows: (query: Query) => Shown,
  symbol: string,
  range: { readonly from: number; readonly to: number },
  history: ReturnType<typeof liquidationHistory>,
): Promise<number> {
  let requests = 0
  const show = (query: Query) => {
    if (++requests > 60) throw new Error('too many requests')
    const { cursor, rows } = shows(query)
    const page = { rows, rejected: [], unkept: 0, requestTime: now, receivedAt: now }
    return Promise.resolve({ ...page, ...(cursor !== undefined && { cursor }) })
  }
  const client = { liquidations: show, fundingRates: show } as unknown as ExchangeClient
  const stream = history.operationOf(category) === 'liquidations' ? 'liquidations' : 'funding_rates'
  const counts = { received: 0, inserted: 0 }
  await history.fetch({ ...instrumentStream(stream, { category, symbol }), category }, [range], {
    client,
    request: {},
    counts,
    ask: (request) => request(),
    now: () => now,
  })
  return requests
}

const key = (symbol: string) => ({ category, symbol, receivedAt: base, extra: {} }) as const
/** Liquidations, the newest first, some minutes apart. */
const liquidationsOf = (symbol: string, count: number, everyMs = 10 * minuteMs, until = base - 2 * hourMs) =>
  Array.from({ length: count }, (_, place) => {
    const ts = until - (place + 1) * everyMs + 137
    return { ...key(symbol), ts, side: 'buy', price: String(1 + (place % 7)), amount: '1' } as const
  })
const ratesOf = (symbol: string, count: number) =>
  Array.from({ length: count }, (_, place) => {
    return { ...key(symbol), ts: base - (place + 1) * 8 * hourMs, fundingRate: '0.0001' }
  })

/** Shows rows in pages, the newest first; each names the next one. */
const inPages =
  (rows: Shown['rows'], most = 100, names = true) =>
  ({ limit, cursor = 0 }: Query): Shown => {
    const end = Number(cursor) + Math.min(limit, most)
    return { rows: rows.slice(Number(cursor), end), ...(names && end < rows.length && { cursor: String(end) }) }
  }
const inNumberedPages =
  (rows: Shown['rows']) =>
  ({ limit, cursor = 1 }: Query): Shown => ({ rows: rows.slice((Number(cursor) - 1) * limit, Number(cursor) * limit) })

type Stream = 'liquidations' | 'funding_rates'
const stored = async (stream: Stream, symbol: string) => {
  const { rows } = await test.database.pool.query<{ ts: number }>(
    `select (extract(epoch from ts) * 1000)::bigint as ts from market.${stream} where symbol = $1 order by ts desc`,
    [symbol],
  )
  return rows.map(({ ts }) => ts)
}
const claimed = (stream: Stream, symbol: string) =>
  coveredRanges(test.database.db, instrumentStream(stream, { category, symbol }))
const reasons = async () => (await listGaps(test.database.db)).map(({ symbol, reason }) => [symbol, reason])

/** Times that are claimed and not stored. */
async function missing(stream: Stream, symbol: string, truth: Shown['rows']): Promise<number[]> {
  const [ranges, known] = [await claimed(stream, symbol), new Set(await stored(stream, symbol))]
  const isClaimed = (ts: number) => ranges.some(({ from, to }) => ts >= from && ts < to)
  return truth.map(({ ts }) => ts).filter((ts) => isClaimed(ts) && !known.has(ts))
}

const threeDays = { from: base - 3 * dayMs + hourMs, to: base - hourMs }
const unconfirmed = 'its operation does not show twice that it has no more rows'
const notContinued = 'a further page of its operation does not continue the page before'
const noFurtherPage = 'its operation names no further page, so that nothing beyond this one can be requested'

it.each([4, 150])('a page that ignores its cursor, with %i newer rows, adds nothing', async (newer) => {
  const all = () => liquidationsOf('AUSDT', 2_000, minuteMs, now)
  const history = liquidationHistory(test.database.db)
  const shows = ({ limit }: Query) => {
    now += newer * minuteMs
    return { rows: all().slice(0, limit), cursor: '7' }
  }
  expect(await fetchFrom(shows, 'AUSDT', threeDays, history)).toBe(3)
  expect(await stored('liquidations', 'AUSDT')).toHaveLength(100)
  expect(await missing('liquidations', 'AUSDT', all())).toEqual([])
  expect(await reasons()).toEqual([['AUSDT', notContinued]])
})

it('pages that name each other within a millisecond end', async () => {
  const one = liquidationsOf('AUSDT', 4, 0)
  const shows = ({ cursor }: Query) =>
    cursor === 'b' ? { rows: one.slice(2), cursor: 'a' } : { rows: one.slice(0, 2), cursor: 'b' }
  expect(await fetchFrom(shows, 'AUSDT', threeDays, liquidationHistory(test.database.db))).toBeLessThanOrEqual(4)
  expect(await stored('liquidations', 'AUSDT')).toHaveLength(4)
})

it('pages without end, each with new rows, end where they are more than is held of them', async () => {
  const extra = { note: 'x'.repeat(16_000) }
  const all = liquidationsOf('AUSDT', 4_000, minuteMs, now).map((row) => ({ ...row, extra }))
  const requests = await fetchFrom(inPages(all), 'AUSDT', threeDays, liquidationHistory(test.database.db))
  // The page that exceeds the bound is not stored.
  // Each page is requested once more, so that the next one overlaps it by two rows.
  const pages = Math.ceil(bounds.walkLength / JSON.stringify(all.slice(0, 100)).length)
  expect(requests).toBe(2 * pages - 1)
  expect(await stored('liquidations', 'AUSDT')).toHaveLength(100 + (pages - 2) * 98)
  expect(await missing('liquidations', 'AUSDT', all)).toEqual([])
  expect(await reasons()).toEqual([['AUSDT', 'its pages are longer together than what is held of them']])
})

it.each([4, 5, 300])(
  'the end of %i rows is proven where each page has a row less than was asked for',
  async (count) => {
    const all = liquidationsOf('AUSDT', count)
    const shows = ({ limit, ...query }: Query) => inPages(all)({ ...query, limit: Math.max(1, limit - 1) })
    await fetchFrom(shows, 'AUSDT', threeDays, liquidationHistory(test.database.db))
    expect(await stored('liquidations', 'AUSDT')).toHaveLength(count)
    const [claim] = await claimed('liquidations', 'AUSDT')
    expect(claim?.from).toBeLessThanOrEqual(all.at(-1)?.ts as number)
  },
)

it('an empty page for a cursor proves nothing below the page that named it', async () => {
  const history = liquidationHistory(test.database.db)
  const [other, all] = [liquidationsOf('AUSDT', 440), liquidationsOf('BUSDT', 440)]
  await fetchFrom(inPages(other), 'AUSDT', threeDays, history)
  expect(await stored('liquidations', 'AUSDT')).toHaveLength(440)
  expect(await reasons()).toEqual([])
  const shows = (query: Query) => (query.cursor === undefined ? inPages(all)(query) : { rows: [] })
  await fetchFrom(shows, 'BUSDT', threeDays, history)
  expect(await stored('liquidations', 'BUSDT')).toHaveLength(100)
  expect(await missing('liquidations', 'BUSDT', all)).toEqual([])
  expect(await reasons()).toEqual([['BUSDT', unconfirmed]])
})

it('an empty second page of settled rates proves nothing below the first one', async () => {
  const history = fundingHistory(test.database.db)
  const range = { from: base - 80 * dayMs, to: base - dayMs }
  const [other, all] = [ratesOf('AUSDT', 270), ratesOf('BUSDT', 270)]
  await fetchFrom(inNumberedPages(other), 'AUSDT', range, history)
  expect(await reasons()).toEqual([])
  const shows = (query: Query) => (query.cursor === 1 ? inNumberedPages(all)(query) : { rows: [] })
  await fetchFrom(shows, 'BUSDT', range, history)
  expect(await stored('funding_rates', 'BUSDT')).toHaveLength(100)
  expect(await missing('funding_rates', 'BUSDT', all)).toEqual([])
  expect(await reasons()).toEqual([['BUSDT', unconfirmed]])
})

it('a larger page of another future tells nothing of a page without a cursor', async () => {
  const history = liquidationHistory(test.database.db)
  const [other, all] = [liquidationsOf('AUSDT', 440), liquidationsOf('BUSDT', 440)]
  await fetchFrom(inPages(other), 'AUSDT', threeDays, history)
  await fetchFrom(inPages(all, 50, false), 'BUSDT', threeDays, history)
  expect(await missing('liquidations', 'BUSDT', all)).toEqual([])
  expect(await reasons()).toEqual([['BUSDT', noFurtherPage]])
})

it.each([3, 60, 130])('all time is claimed of a future with %i liquidations, after few requests', async (count) => {
  const history = liquidationHistory(test.database.db)
  await fetchFrom(inPages(liquidationsOf('AUSDT', 440)), 'AUSDT', threeDays, history)
  const requests = await fetchFrom(inPages(liquidationsOf('BUSDT', count)), 'BUSDT', threeDays, history)
  expect(requests).toBeLessThanOrEqual(7)
  expect(await claimed('liquidations', 'BUSDT')).toHaveLength(1)
  const [covered] = await claimed('liquidations', 'BUSDT')
  expect(covered?.from).toBeLessThanOrEqual(threeDays.from)
  expect(covered?.to).toBeGreaterThanOrEqual(threeDays.to)
  expect(await reasons()).toEqual([])
})

it.each([3, 90, 100, 101])('all time is claimed of a young future with %i settlements', async (count) => {
  const history = fundingHistory(test.database.db)
  const range = { from: base - 80 * dayMs, to: base - hourMs }
  await fetchFrom(inNumberedPages(ratesOf('AUSDT', 270)), 'AUSDT', range, history)
  const requests = await fetchFrom(inNumberedPages(ratesOf('BUSDT', count)), 'BUSDT', range, history)
  expect(requests).toBeLessThanOrEqual(5)
  const [covered] = await claimed('funding_rates', 'BUSDT')
  expect(covered?.from).toBeLessThanOrEqual(range.from)
  expect(await reasons()).toEqual([])
})

it.each(['funding_rates', 'liquidations'] as const)(
  'pages of %s that end anywhere claim no row away',
  async (stream) => {
    const isFunding = stream === 'funding_rates'
    const history = isFunding ? fundingHistory(test.database.db) : liquidationHistory(test.database.db)
    const rowsOf = (symbol: string, count = 270) =>
      isFunding ? ratesOf(symbol, count) : liquidationsOf(symbol, count, 10 * minuteMs)
    const pages = isFunding ? inNumberedPages : inPages
    const range = isFunding ? { from: base - 80 * dayMs, to: base - dayMs } : threeDays
    await fetchFrom(pages(rowsOf('AUSDT', 430)), 'AUSDT', range, history)
    for (const seed of Array.from({ length: 20 }).keys()) {
      const [symbol, all] = [`B${seed}USDT`, rowsOf(`B${seed}USDT`)]
      let requests = 0
      const shows = (query: Query): Shown => {
        const { rows, cursor } = pages(all)(query)
        const most = 1 + ((seed * 7 + ++requests * (seed + 11) * 13) % 30)
        // A page that was cut names no other one.
        return { rows: rows.slice(0, most), ...(cursor !== undefined && rows.length <= most && { cursor }) }
      }
      await fetchFrom(shows, symbol, range, history)
      expect(await missing(stream, symbol, all)).toEqual([])
    }
  },
)

/** Shows rows in pages of which each names the time of its last row. The next one is older, and lacks equal times. */
const inPagesByTime =
  (rows: Shown['rows']) =>
  ({ limit, cursor = Infinity }: Query): Shown => {
    const older = rows.filter(({ ts }) => ts < Number(cursor))
    const page = older.slice(0, limit)
    return { rows: page, ...(page.length < older.length && { cursor: String(page.at(-1)?.ts) }) }
  }
const threeAtOnce = (symbol: string, count: number) =>
  liquidationsOf(symbol, count).flatMap((row) => ['1', '2', '3'].map((price) => ({ ...row, price })))

it('a cursor that counts by time loses no row inside what is claimed, and overlapping pages show all', async () => {
  const history = liquidationHistory(test.database.db)
  const all = threeAtOnce('AUSDT', 440)
  await fetchFrom(inPagesByTime(all), 'AUSDT', threeDays, history)
  const { rows } = await test.database.pool.query('select from market.liquidations where ts >= $1', [
    new Date(threeDays.from),
  ])
  expect(rows).toHaveLength(all.filter(({ ts }) => ts >= threeDays.from).length)
  expect(await claimed('liquidations', 'AUSDT')).toHaveLength(1)
  expect(await reasons()).toEqual([])
})

it('a millisecond that no page shows with rows on both sides of it is a gap', async () => {
  const history = liquidationHistory(test.database.db)
  const all = threeAtOnce('AUSDT', 400)
  const shows = (query: Query) => inPagesByTime(all)({ ...query, limit: 100 })
  await fetchFrom(shows, 'AUSDT', threeDays, history)
  const [times, ranges] = [await stored('liquidations', 'AUSDT'), await claimed('liquidations', 'AUSDT')]
  const isShort = (ts: number) => times.filter((other) => other === ts).length < 3
  const short = [...new Set(times.filter((ts) => isShort(ts)))]
  expect(short.length).toBeGreaterThan(5)
  expect(short.filter((ts) => ranges.some(({ from, to }) => ts >= from && ts < to))).toEqual([])
  const gaps = (await listGaps(test.database.db)).filter(({ state }) => state === 'open')
  const lacking = short.filter((ts) => !gaps.some(({ range: { from, to } }) => ts >= from && ts < to))
  expect(lacking).toEqual([])
})

it('time that the history of no future reaches is a gap that says so', async () => {
  const history = fundingHistory(test.database.db)
  const rates = ratesOf('AUSDT', 90)
  const range = { from: base - 80 * dayMs, to: base - hourMs }
  await fetchFrom(inNumberedPages(rates), 'AUSDT', range, history)
  expect(await reasons()).toEqual([['AUSDT', 'its history shows nothing older']])
  const [gap] = await listGaps(test.database.db)
  expect(gap?.range).toEqual({ from: range.from, to: rates.at(-1)?.ts })
})

it('what left the history after another future was fetched is no silence', async () => {
  const history = liquidationHistory(test.database.db)
  const of = (symbol: string) => liquidationsOf(symbol, 1_000, 10 * minuteMs, base + 10 * hourMs)
  const shows = (query: Query) =>
    inPages(of(query.symbol).filter(({ ts }) => ts < now - minuteMs && ts >= now - 3 * dayMs))(query)
  await fetchFrom(shows, 'AUSDT', threeDays, history)
  now += 5 * hourMs
  await fetchFrom(shows, 'BUSDT', threeDays, history)
  expect(await missing('liquidations', 'BUSDT', of('BUSDT'))).toEqual([])
  expect(await reasons()).toEqual([['BUSDT', 'its history shows nothing older']])
  const [gap] = await listGaps(test.database.db)
  expect(gap?.range.from).toBe(threeDays.from)
  expect((gap?.range.to ?? 0) - (now - 3 * dayMs)).toBeLessThan(10 * minuteMs)
})

it.each(['funding_rates', 'liquidations'] as const)(
  'a list of %s that ends above stored rows shows no silence below it',
  async (stream) => {
    const isFunding = stream === 'funding_rates'
    const { db } = test.database
    const history = isFunding ? fundingHistory(db) : liquidationHistory(db)
    const ofSymbol = (symbol: string) => (isFunding ? ratesOf(symbol, 240) : liquidationsOf(symbol, 400))
    const pages = isFunding ? inNumberedPages : inPages
    const unitMs = isFunding ? dayMs : hourMs
    const before = (units: number) => base - units * unitMs
    await fetchFrom(pages(ofSymbol('AUSDT')), 'AUSDT', { from: before(60), to: before(4) }, history)
    const all = ofSymbol('BUSDT')
    for (const rows of [all.filter(({ ts }) => ts < before(40)), all.filter(({ ts }) => ts > before(35))]) {
      const came = { requestTime: base, receivedAt: base, rejected: [] }
      await storeBatch(db, { ...came, stream, target: { category, symbol: 'BUSDT' }, rows })
    }
    const [gap] = await listGaps(db)
    if (gap === undefined) throw new Error('no gap')
    const kept = all.filter(({ ts }) => ts > before(30))
    await fetchFrom(pages(kept), 'BUSDT', gap.range, history)
    expect(await missing(stream, 'BUSDT', all)).toEqual([])
    expect((await listGaps(db)).map(({ range, state }) => ({ range, state }))).toEqual([
      { range: gap.range, state: 'open' },
    ])
  },
)
