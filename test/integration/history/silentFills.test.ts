import { afterAll, beforeAll, expect, it } from 'vitest'
import { instrumentStream, type Series } from '../../../src/db/series.js'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import { fillRefusals } from '../../../src/history/fillsWalk.js'
import { fillHistory } from '../../../src/history/pastFills.js'
import { repairOf } from '../../../src/history/repairs.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { insertWants } from '../../../src/ledger/wants.js'
import type { Fill } from '../../../src/market/rows.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'
import { addCoverage, coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aFill } from '../../support/marketRows.js'

const now = Date.UTC(2026, 10, 20)

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())

it('a gap of an instrument that shows no fill closes once its category has shown the ids of live ones', async () => {
  const { db } = test.database
  const truth = [3, 2, 1].map((hours) => ({ ...aFill({ ts: now - hours * hourMs }), execId: `${hours}` }))
  const copied = truth.map((fill) => ({ ...fill, symbol: 'SOLUSDT' }))
  await insertFills(db, [...truth, ...copied])
  await db.updateTable('market.fills').set({ source: 'history' }).where('symbol', '=', 'SOLUSDT').execute()
  const pageOf = (rows: readonly Fill[]) =>
    Promise.resolve({ rows, rejected: [], unkept: 0, receivedAt: now, requestTime: now } as unknown as Page<Fill>)
  const client = {
    fills: () => pageOf([]),
    pastFills: ({ symbol: of, startTime, endTime }: { symbol: string; startTime: number; endTime: number }) =>
      pageOf(
        [...truth, ...copied]
          .filter((fill) => fill.symbol === of && fill.ts >= startTime && fill.ts <= endTime)
          .toReversed(),
      ),
  } as unknown as ExchangeClient
  const counts = { requests: 0, received: 0, inserted: 0, updated: 0 }
  const context = { client, request: {}, ask: <T>(send: () => Promise<T>) => send(), now: () => now, counts }
  const history = fillHistory(db)
  const range = { from: now - 2 * hourMs, to: now - hourMs }
  const [shown, silent, past] = [aFill({}).symbol, 'ETHUSDT', 'SOLUSDT'].map((of) =>
    instrumentStream('fills', { category: 'SPOT', symbol: of }),
  )
  const fetch = (series: typeof shown) => history.fetch(series as never, [range], context)
  // A process that has seen no fill of the category knows nothing of its ids.
  expect(await fetch(silent)).toEqual({ refused: [range] })
  // Fills that the history itself stored say nothing of live ids.
  expect(await fetch(past)).toEqual({ refused: [] })
  expect(await fetch(silent)).toEqual({ refused: [range] })
  expect(await listGaps(db)).toMatchObject([{ symbol: 'ETHUSDT', reason: fillRefusals.unproven }])
  expect(await fetch(shown)).toEqual({ refused: [] })
  expect(await fetch(silent)).toEqual({ refused: [] })
  expect(await listGaps(db)).toEqual([])
  expect(await coveredRanges(db, silent as Series)).toEqual([range])
})

const category = 'USDT-FUTURES'
let rejected: string[] = []
/** Sends a request, and notes the reasons of rejected rows. */
async function noting<Row>(send: () => Promise<Page<Row>>): Promise<Page<Row>> {
  const page = await send()
  rejected.push(...page.rejected.map(({ reason }) => reason))
  return page
}
const fillsOf = (symbol: string, count: number, everyMs: number, until: number) =>
  Array.from({ length: count }, (_, place) => {
    return aFill({ category, symbol, ts: until - (place + 1) * everyMs, execId: `${symbol}${place}` })
  })

/** Fetches ranges of a history at a time. Resolves to the fills inside what is claimed that are not stored. */
async function falseClaims(
  history: ReturnType<typeof fillHistory>,
  fills: readonly Fill[],
  range: { readonly from: number; readonly to: number },
  { at = now, keptMs = 90 * dayMs, lateMs = 0 } = {},
): Promise<number> {
  const { db, pool } = test.database
  const symbol = fills[0]?.symbol ?? ''
  const pageOf = (rows: readonly Fill[]) =>
    Promise.resolve({ rows, rejected: [], unkept: 0, receivedAt: at, requestTime: at } as unknown as Page<Fill>)
  const client = {
    fills: () => pageOf(fills.filter(({ ts }) => ts <= at).slice(0, 100)),
    pastFills: ({ startTime, endTime }: { startTime: number; endTime: number }) =>
      pageOf(
        fills.filter(
          ({ ts }) => ts >= Math.max(startTime, at - keptMs) && ts <= Math.min(endTime, at - lateMs) && ts <= at,
        ),
      ),
  } as unknown as ExchangeClient
  const series = instrumentStream('fills', { category, symbol })
  const counts = { received: 0, inserted: 0 }
  const context = { client, request: {}, ask: noting, now: () => at, counts }
  await history.fetch({ ...series, category }, [range], context)
  const covered = await coveredRanges(db, series)
  const { rows } = await pool.query<{ id: string }>('select exec_id as id from market.fills where symbol = $1', [
    symbol,
  ])
  const stored = new Set(rows.map(({ id }) => id))
  const isClaimed = (ts: number) => covered.some(({ from, to }) => ts >= from && ts < to)
  return fills.filter(({ ts, execId }) => isClaimed(ts) && !stored.has(execId)).length
}

it('fills that left the history after another instrument was fetched are no silence', async () => {
  const history = fillHistory(test.database.db)
  const until = now + 10 * dayMs
  const fillsOfBoth = ['KEPTUSDT', 'GONEUSDT'].map((symbol) => fillsOf(symbol, 1_000, hourMs, until))
  const [kept = [], gone = []] = fillsOfBoth
  const old = { from: now - 30 * dayMs, to: now - 29 * dayMs }
  expect(await falseClaims(history, kept, old, { keptMs: 30 * dayMs })).toBe(0)
  const range = { from: now - 25 * dayMs, to: now - 22 * dayMs }
  expect(await falseClaims(history, gone, range, { at: until, keptMs: 30 * dayMs })).toBe(0)
  const gaps = await listGaps(test.database.db)
  expect(gaps.filter(({ symbol }) => symbol === 'GONEUSDT')).toMatchObject([{ range, state: 'open' }])
})

it('what lies between fills that a history shows first and the wanted time is a gap until it comes', async () => {
  const { db } = test.database
  const fills = fillsOf('FIRSTUSDT', 200, 9_999, now - hourMs).toReversed()
  const wanted = { from: now - 70 * minuteMs, to: now - 65 * minuteMs }
  await insertFills(
    db,
    fills.filter(({ ts }) => ts >= wanted.to),
  )
  const series = { ...instrumentStream('fills', { category, symbol: 'FIRSTUSDT' }), category } as const
  await addCoverage(db, series, [{ from: wanted.to, to: now - hourMs }])
  const pageOf = (rows: readonly Fill[]) => ({ rows, rejected: [], unkept: 0, receivedAt: now, requestTime: now })
  /** Fetches in pages of 14, oldest first, until so many came. */
  const fetchPages = async (pages: number) => {
    let asked = 0
    const ask = () => (asked++ < pages ? Promise.resolve() : Promise.reject(new Error('broken off')))
    const client = {
      fills: async () => pageOf(fills.slice(-100)),
      pastFills: async ({ startTime, endTime }: { startTime: number; endTime: number }) =>
        pageOf(fills.filter(({ ts }) => ts >= startTime && ts <= endTime).slice(0, 14)),
    } as unknown as ExchangeClient
    const counts = { received: 0, inserted: 0 }
    const send = async <T>(request: () => Promise<T>) => ask().then(request)
    const context = { client, request: {}, ask: send, now: () => now, counts }
    await fillHistory(db).fetch(series, [wanted], context)
  }
  const gaps = async () => (await listGaps(db)).filter(({ symbol }) => symbol === 'FIRSTUSDT')
  // What is wanted is no gap yet.
  await insertWants(db, [repairOf(series, [wanted])])
  // The second one shows that the history has the ids of live fills, which no fill of the first one told.
  await expect(fetchPages(2)).rejects.toThrow('broken off')
  const [claim] = await coveredRanges(db, series)
  expect(claim?.to).toBeLessThan(wanted.from - 7 * minuteMs)
  expect(await gaps()).toMatchObject([{ range: { from: claim?.to, to: wanted.from }, state: 'open' }])
  await fetchPages(1_000)
  expect(await coveredRanges(db, series)).toEqual([{ from: claim?.from, to: now - hourMs }])
  expect((await gaps()).filter(({ state }) => state !== 'repaired')).toEqual([])
})

it('a page of fills far from the wanted time stores and claims nothing, unless it shows a stored one', async () => {
  const { db } = test.database
  const key = { category, symbol: 'FARUSDT' } as const
  const fills = fillsOf('FARUSDT', 10, minuteMs, now - 5 * dayMs)
  const asked = { from: now - 6 * dayMs, to: now }
  const wanted = { from: now - dayMs, to: now - dayMs + minuteMs }
  const page = { asked, fills, other: null, reachesTo: now, largest: 10, disorderMs: 0, requestTime: now }
  const series = instrumentStream('fills', key)
  expect(await storePastFills(db, key, { ...page, wanted })).toMatchObject({ inserted: 0, refusal: null })
  expect(await coveredRanges(db, series)).toEqual([])
  await insertFills(db, fills.slice(3, 4))
  expect(await storePastFills(db, key, { ...page, wanted })).toMatchObject({ inserted: 9 })
  expect(await coveredRanges(db, series)).toHaveLength(1)
})

it('a history that does not show the newest live fills yet shows no silence there', async () => {
  const history = fillHistory(test.database.db)
  await falseClaims(history, fillsOf('OLDUSDT', 3_000, minuteMs, now), { from: now - 2 * dayMs, to: now - dayMs })
  const range = { from: now - dayMs, to: now - minuteMs }
  const late = fillsOf('LATEUSDT', 500, 3 * minuteMs, now - 5_000)
  expect(await falseClaims(history, late, range, { lateMs: hourMs })).toBe(0)
  const gapsOf = async (of: string) => (await listGaps(test.database.db)).filter(({ symbol }) => symbol === of)
  const [gap, ...others] = await gapsOf('LATEUSDT')
  expect(others).toEqual([])
  expect(gap?.range.to).toBe(range.to)
  // All before that is claimed, and all of it where the history is not late.
  expect(gap?.range.from).toBeGreaterThan(now - hourMs - 6 * minuteMs)
  const honest = fillsOf('SOONUSDT', 500, 3 * minuteMs, now - 5_000)
  expect(await falseClaims(history, honest, range)).toBe(0)
  expect(await gapsOf('SOONUSDT')).toEqual([])
})

it('a fill that stands in a page twice, with different sizes, is a gap, and the second is kept', async () => {
  const fills = fillsOf('TWICEUSDT', 500, 3 * minuteMs, now - minuteMs)
  const twice = fills[100] as Fill
  const pages = fills.toSpliced(101, 0, { ...twice, size: '77' })
  rejected = []
  const range = { from: now - 20 * hourMs, to: now - hourMs }
  expect(await falseClaims(fillHistory(test.database.db), pages, range)).toBe(0)
  const gaps = (await listGaps(test.database.db)).filter(({ symbol }) => symbol === 'TWICEUSDT')
  expect(gaps).toMatchObject([{ range: { from: twice.ts, to: twice.ts + 1 }, state: 'open' }])
  expect(new Set(rejected)).toEqual(new Set(['a fill stands in a response twice, with different values']))
})
