import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { readDecimal } from '../../../src/exchange/formats/fields.js'
import { instrumentStream } from '../../../src/db/series.js'
import { fundingHistory } from '../../../src/history/pastFutures.js'
import { repairOf } from '../../../src/history/repairs.js'
import type { EventSeries } from '../../../src/history/sliceWork.js'
import { claimEvents } from '../../../src/ledger/futures.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { type FutureKey, isFuture } from '../../../src/market/category.js'
import type { FundingRate } from '../../../src/market/funding.js'
import { dayMs, hourMs, type TimeMs } from '../../../src/market/values.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { fundingHours } from '../../../src/simulator/world/funding.js'
import { clientOf, repairFutures } from '../../support/backfill.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const start = Date.UTC(2026, 10, 20, 3, 30)
let now: TimeMs
let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  now = start
  await test.database.pool.query('truncate market.funding_rates, recorder.ledger, recorder.want, recorder.slice')
  simulator = await startSimulator({ scale: 'tiny', now: () => now, limits: { enforce: false } })
})
afterEach(() => simulator.close())

/** Perpetual futures that are older than the history of rates. */
const futures = (): FutureKey[] =>
  simulator.world
    .listings()
    .filter((listing) => listing.contract === 'perpetual' && listing.launchTime < start - 90 * dayMs)
    .flatMap(({ category, symbol }) => [{ category, symbol }].filter(isFuture))

/** What the newest response shows of each instrument is stored, as by the recorder. */
async function poll(keys: readonly FutureKey[] = futures()): Promise<void> {
  const client = clientOf(simulator.url, 100)
  for (const { category, symbol } of keys) {
    const target = { category, symbol }
    const { rows, requestTime, receivedAt, rejected } = await client.fundingRates({ ...target, limit: 100 })
    const batch = { stream: 'funding_rates', target, requestTime, receivedAt, rows, rejected } as const
    await storeBatch(test.database.db, batch)
  }
  client.close()
}

/** Has what is missing wanted and fetched. Resolves to the number of requests. */
async function repair(): Promise<number> {
  const before = requests()
  await repairFutures(test, simulator, 'funding_rates', () => now)
  return requests() - before
}

const requests = () =>
  Object.values(simulator.control.report()).reduce(
    (sum, { operations }) => sum + operations['history-fund-rate'].requests,
    0,
  )

type Row = Pick<FundingRate, 'symbol' | 'ts' | 'fundingRate'> & { readonly hours: number | null }

async function stored({ category, symbol }: FutureKey): Promise<Row[]> {
  const { rows } = await test.database.pool.query<Row>(
    `select symbol, (extract(epoch from ts) * 1000)::bigint as ts, funding_rate::text as "fundingRate", interval_hours as hours
      from market.funding_rates where category = $1 and symbol = $2 order by ts desc`,
    [category, symbol],
  )
  return rows
}

function truth({ category, symbol }: FutureKey, at = now): Row[] {
  const listing = simulator.world.find(category, symbol)
  const hours = listing === undefined ? null : fundingHours(listing)
  const rows = simulator.world.fundingRates(category, symbol, at, 1, 10_000)
  return rows.map(({ fundingRate, fundingRateTimestamp }, place) => {
    const isOldest = place === rows.length - 1
    return { symbol, ts: Number(fundingRateTimestamp), fundingRate, hours: isOldest ? null : hours }
  })
}

const coverage = async () => (await test.database.pool.query('select symbol from market.coverage')).rowCount
const gaps = () => listGaps(test.database.db, { streams: ['funding_rates'] })

it('the rates of 90 days of all futures are there after the fewest requests, each with its interval', async () => {
  await poll()
  const made = await repair()
  let least = 0
  for (const key of futures()) {
    expect(await stored(key)).toEqual(truth(key))
    // Of up to a hundred rates the live response has all.
    least += truth(key).length > 100 ? Math.ceil(truth(key).length / 100) : 0
  }
  // Pages overlap by a row, so that the last ones of many bring less.
  expect(made).toBeLessThanOrEqual(1.1 * least)
  expect(await coverage()).toBe(futures().length)
  expect(await gaps()).toEqual([])
  await poll()
  expect(await repair()).toBe(0)
})

it('the rates are fetched while the service holds all requests for liquidations', async () => {
  simulator.control.setFaults([{ kind: 'noResponse', operations: ['liquidations'] }])
  const lastDay = [{ from: now - dayMs, to: now }]
  const held = 'ABCDEFGH'.split('').map((symbol) => ({ category: 'USDT-FUTURES', symbol }) as const)
  await insertWants(
    test.database.db,
    held.map((key) => repairOf(instrumentStream('liquidations', key), lastDay)),
  )
  const [key] = futures() as [FutureKey]
  await poll([key])
  await repair()
  expect(await stored(key)).toEqual(truth(key))
})

it('what a response shows of less than a hundred settlements needs no repair, of more it is a gap that is filled', async () => {
  const hourly = futures().filter(({ category, symbol }) => {
    const listing = simulator.world.find(category, symbol)
    return listing !== undefined && fundingHours(listing) === 1
  })
  expect(hourly.length).toBeGreaterThan(0)
  await poll(hourly)
  now += 3 * dayMs
  await poll(hourly)
  expect(await gaps()).toEqual([])
  now += 10 * dayMs
  await poll(hourly)
  const open = await gaps()
  expect(open).toMatchObject(hourly.map(() => ({ state: 'open' })))
  for (const { range } of open) expect(range.to - range.from).toBeGreaterThan(5 * dayMs)
  await repair()
  expect(new Set((await gaps()).map(({ state }) => state))).toEqual(new Set(['repaired']))
  expect(await coverage()).toBe(hourly.length)
  for (const key of hourly) expect((await stored(key)).slice(0, -1)).toEqual(truth(key).slice(0, -1))
})

it.each([199, 200, 201])(
  'a gap whose oldest settlement is number %i, near the end of a page, is filled',
  async (count) => {
    const key = futures().find(({ category, symbol }) => {
      const listing = simulator.world.find(category, symbol)
      return listing !== undefined && fundingHours(listing) === 1
    })
    if (key === undefined) throw new Error('no future settles each hour')
    await poll([key])
    await repair()
    const all = truth(key)
    const gap = { from: all[count - 1]?.ts ?? 0, to: all[49]?.ts ?? 0 }
    const { db, pool } = test.database
    await pool.query('delete from market.funding_rates where ts >= $1 and ts < $2', [
      new Date(gap.from),
      new Date(gap.to),
    ])
    await pool.query('truncate recorder.ledger, recorder.want, recorder.slice')
    const known = [
      { from: start - 90 * dayMs, to: gap.from },
      { from: gap.to, to: now },
    ]
    await claimEvents(db, instrumentStream('funding_rates', key), known, 'not recorded')
    expect(await repair()).toBe(3)
    expect(await stored(key)).toEqual(all)
    expect(new Set((await gaps()).map(({ state }) => state))).toEqual(new Set(['repaired']))
  },
)

/** Stores what a live response shows of a future. */
async function storeShown({ category, symbol }: FutureKey, rows: readonly Pick<Row, 'ts' | 'fundingRate'>[]) {
  const rates = rows.map(({ ts, fundingRate }) => ({ category, symbol, ts, fundingRate, receivedAt: now, extra: {} }))
  const batch = { stream: 'funding_rates', target: { category, symbol }, requestTime: now, receivedAt: now } as const
  await storeBatch(test.database.db, { ...batch, rows: rates, rejected: [] })
}

it('the first step is neither claimed nor a gap before another one shows the interval', async () => {
  const [key] = futures() as [FutureKey]
  const hourOf = (hour: number) => ({ ts: start - dayMs - dayMs / 48 + hour * hourMs, fundingRate: '0.0001' })
  const claimed = async () => {
    const { rows } = await test.database.pool.query<{ from: number; to: number }>(
      'select from_time as "from", to_time as "to" from market.coverage order by 1',
    )
    return rows.map(({ from, to }) => [from, to].map((time) => (time - hourOf(0).ts) / hourMs).map(Math.floor))
  }
  await storeShown(key, [10, 12].map(hourOf))
  expect(await claimed()).toEqual([[10, 10]])
  expect(await gaps()).toEqual([])
  await storeShown(key, [10, 12, 13].map(hourOf))
  expect(await claimed()).toEqual([
    [10, 10],
    [12, 13],
  ])
  await storeShown(key, [7, 8, 9, 10, 12, 13].map(hourOf))
  const hole = { from: hourOf(10).ts + 1, to: hourOf(12).ts }
  expect(await gaps()).toMatchObject([{ state: 'open', range: hole }])
  await storeShown(key, [10, 11, 12, 13].map(hourOf))
  expect(await gaps()).toMatchObject([{ state: 'repaired', range: hole }])
  expect(await claimed()).toEqual([[7, 13]])
})

it('a settlement that comes again with another rate is a gap, until it comes with the stored one', async () => {
  const [key] = futures() as [FutureKey]
  const hourOf = (hour: number, fundingRate: string) => ({ ts: start - dayMs + hour * hourMs, fundingRate })
  const rates = [8, 9, 10, 11, 12].map((hour) => hourOf(hour, '0.0001'))
  const changed = rates.with(2, hourOf(10, '0.0099'))
  const disputed = { from: hourOf(10, '').ts, to: hourOf(10, '').ts + 1_000 }
  await storeShown(key, rates)
  await storeShown(key, [...rates, hourOf(13, '0.00010')])
  expect(await gaps()).toEqual([])
  await storeShown(key, changed)
  const open = [{ state: 'open', range: disputed, reason: 'a response gave a stored settlement another rate' }]
  expect(await gaps()).toMatchObject(open)
  expect((await stored(key)).map(({ fundingRate }) => fundingRate)).not.toContain('0.0099')
  // A response of other times answers nothing, and claims nothing of that one.
  await storeShown(
    key,
    [11, 12, 13, 14].map((hour) => hourOf(hour, '0.0001')),
  )
  await storeShown(key, changed)
  expect(await gaps()).toMatchObject(open)
  await storeShown(key, rates)
  expect((await gaps()).filter(({ state }) => state === 'open')).toEqual([])
  expect(await coverage()).toBe(1)
})

it.each(['-0.000000', '0', '0e-8', '-00.0'])('a rate of 0 is the same rate as %s', async (zero) => {
  const [key] = futures() as [FutureKey]
  const rates = (fundingRate: string) =>
    [8, 9, 10, 11].map((hour) => ({ ts: start - dayMs + hour * hourMs, fundingRate: readDecimal(fundingRate) ?? '' }))
  for (const again of ['0.000', zero, zero]) {
    await storeShown(key, rates(again))
    expect(await gaps()).toEqual([])
  }
})

it('a settlement that a response leaves out is a gap by the interval, and no gap when it comes', async () => {
  const [key] = futures()
  if (key === undefined) throw new Error('there is no future')
  const store = (rows: readonly Row[]) => storeShown(key, rows)
  const all = truth(key).slice(0, 30)
  await store(all.filter((_, place) => place !== 10))
  const [hole] = await gaps()
  expect(hole).toMatchObject({ state: 'open', range: { from: (all[11]?.ts ?? 0) + 1, to: all[9]?.ts } })
  const intervals = async () => (await stored(key)).map(({ hours }) => hours)
  expect((await intervals())[9]).toBe(null)
  await store(all)
  expect((await gaps()).map(({ state }) => state)).toEqual(['repaired'])
  expect((await intervals()).slice(0, -1)).toEqual(all.slice(0, -1).map(({ hours }) => hours))
  await store(all)
  expect((await gaps()).map(({ state }) => state)).toEqual(['repaired'])
})

it('a history that is asked once more and cannot be understood makes no gap of what is claimed', async () => {
  const { db } = test.database
  const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  const at = (place: number) => start - (start % (8 * hourMs)) - place * 8 * hourMs
  const rates = Array.from({ length: 20 }, (_, place) => ({
    ...key,
    ts: at(place),
    fundingRate: '0.0001',
    receivedAt: start,
    extra: {},
  }))
  const batch = { stream: 'funding_rates', target: key, requestTime: start, receivedAt: start } as const
  await storeBatch(db, { ...batch, rows: rates, rejected: [] })
  const claims = () => coveredRanges(db, instrumentStream('funding_rates', key))
  const claimed = await claims()
  const fundingRates = ({ cursor = 1, limit }: { cursor?: number; limit: number }) => {
    const length = Math.min(limit, 10)
    const rows = rates.slice((cursor - 1) * length, cursor * length)
    const rejected = rows.filter(({ ts }) => ts === at(14))
    return Promise.resolve({ rows: rows.filter(({ ts }) => ts !== at(14)), rejected, unkept: 0, requestTime: start })
  }
  const context = {
    client: { fundingRates },
    request: {},
    ask: (ask: () => unknown) => ask(),
    now: () => start,
    counts: { received: 0, inserted: 0 },
  }
  const range = { from: at(19), to: start - 60_000 }
  await fundingHistory(db).fetch(instrumentStream('funding_rates', key) as EventSeries, [range], context as never)
  expect(claimed).toHaveLength(1)
  expect(await claims()).toEqual(claimed)
  expect(await listGaps(db)).toEqual([])
})
