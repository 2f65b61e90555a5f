import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Candle, type Interval, intervalMs } from '../../../../src/market/candle.js'
import type { TradedCategory } from '../../../../src/market/category.js'
import { quirksSchema } from '../../../../src/simulator/world/quirks.js'
import { defaultActivity } from '../../../../src/simulator/world/catalogue.js'
import { createWorld, type World } from '../../../../src/simulator/world/world.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { refreshRollups, rollups } from '../../../../src/server/timescale/rollups.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { closedCandle } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const from = Date.UTC(2026, 2, 3, 14)
const to = from + 60 * hourMs
const categories: readonly TradedCategory[] = ['SPOT', 'COIN-FUTURES']

function worldOf(dailyOpenAt16Utc: boolean): World {
  const quirks = quirksSchema.parse({ dailyOpenAt16Utc })
  return createWorld({ seed: 7, scale: 'small', activity: defaultActivity, quirks: () => quirks })
}
const world = worldOf(true)

/** An instrument that traded all the time, in each of the categories. */
const instruments = categories.map((category) => {
  const found = world
    .listings()
    .find(
      (l) =>
        l.category === category &&
        l.launchTime < from &&
        (l.offTime === undefined || l.offTime === null || l.offTime > to),
    )
  if (found === undefined) throw new Error(`the simulated market has no old instrument in ${category}`)
  return { category, symbol: found.symbol }
})

function served(of: World, category: TradedCategory, symbol: string, interval: Interval): Candle[] {
  const series = { category, symbol, type: 'market' as const, interval }
  return of
    .candles(series, from, to, to)
    .filter(([openTime]) => Number(openTime) + intervalMs[interval] <= to)
    .map((row) => closedCandle(series, row))
}

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
  for (const { category, symbol } of instruments) {
    await upsertCandles(created.database.db, served(world, category, symbol, '1m'))
  }
})
afterAll(async () => created.drop())

type Values = [number, string, string, string, string, string, string]

async function rolledUp(relation: string, parameters: readonly unknown[]): Promise<Values[]> {
  const { rows } = await created.database.pool.query<Values>({
    text: `select open_time, trim_scale(open), trim_scale(high), trim_scale(low), trim_scale(close),
      trim_scale(base_volume), trim_scale(quote_turnover) from ${relation} order by open_time`,
    values: [...parameters],
    rowMode: 'array',
  })
  return rows
}

const trimmed = (decimal: string) => (decimal.includes('.') ? decimal.replace(/\.?0+$/, '') : decimal)
const valuesOf = (candle: Candle): Values => [
  candle.openTime,
  trimmed(candle.open),
  trimmed(candle.high),
  trimmed(candle.low),
  trimmed(candle.close),
  trimmed(candle.baseVolume ?? ''),
  trimmed(candle.quoteTurnover ?? ''),
]

/** Of a view, the buckets that lie in the range as a whole. */
const whole = (view: string, interval: Interval) =>
  `market.${view} where category = $1 and symbol = $2 and open_time >= '${new Date(from).toISOString()}'
    and open_time + '${intervalMs[interval] / 1000} s'::interval <= '${new Date(to).toISOString()}'`

const views: readonly (readonly [string, Interval])[] = [
  ['ohlcv_5m', '5m'],
  ['ohlcv_15m', '15m'],
  ['ohlcv_1h', '1H'],
  ['ohlcv_4h', '4H'],
]

describe.each(instruments)("rollups of $category equal the service's own candles", ({ category, symbol }) => {
  async function expectEqual(): Promise<void> {
    for (const [view, interval] of views) {
      const own = served(world, category, symbol, interval).map(valuesOf)
      expect(own.length).toBeGreaterThan(10)
      expect(await rolledUp(whole(view, interval), [category, symbol]), view).toEqual(own)
    }
    // Days from midnight are what the service would have without its habit of opening them at 16:00 UTC.
    const days = served(worldOf(false), category, symbol, '1D').map(valuesOf)
    expect(days.length).toBeGreaterThan(0)
    expect(await rolledUp(whole('ohlcv_1d', '1D'), [category, symbol])).toEqual(days)
  }

  it('before anything was refreshed', expectEqual)

  it('after a refresh', async () => {
    await refreshRollups(created.database.db, [{ from, to }])
    await expectEqual()
  })

  it('in days that open at 16:00 UTC', async () => {
    const days = served(world, category, symbol, '1D')
    expect(days.map(({ openTime }) => new Date(openTime).getUTCHours())).toEqual([16, 16])
    const first = new Date(days[0]?.openTime ?? 0).toISOString()
    const end = new Date((days.at(-1)?.openTime ?? 0) + 24 * hourMs).toISOString()
    const relation = `market.ohlcv($1, $2, '24 hours', '${first}', '${end}', '1970-01-01 16:00Z')`
    expect(await rolledUp(relation, [category, symbol])).toEqual(days.map(valuesOf))
  })

  it.each([
    ['3 minutes', '3m'],
    ['30 minutes', '30m'],
    ['6 hours', '6H'],
    ['12 hours', '12H'],
  ] as const)('in candles of %s', async (width, interval) => {
    const own = served(world, category, symbol, interval)
    const first = new Date(own[0]?.openTime ?? 0).toISOString()
    const end = new Date((own.at(-1)?.openTime ?? 0) + intervalMs[interval]).toISOString()
    const relation = `market.ohlcv($1, $2, '${width}', '${first}', '${end}')`
    expect(await rolledUp(relation, [category, symbol])).toEqual(own.map(valuesOf))
  })
})

it.each([
  ['1 hour', 30, 90],
  ['1 hour', 1, 47 * 60 + 7],
  ['1 hour', 10, 20],
  ['2 hours', 0, 5 * 60 + 59],
  ['15 minutes', 3, 400],
  ['7 minutes', 3, 400],
])('market.ohlcv of %s holds exactly the minutes of its range: %d to %d', async (width, first, last) => {
  const [instrument] = instruments
  const parameters = [instrument?.category, instrument?.symbol]
  const [begin, end] = [from + first * 60_000, from + last * 60_000].map((at) => new Date(at).toISOString())
  const minutes = `
    (select date_bin('${width}', open_time, 'epoch') as open_time, (array_agg(open order by open_time))[1] as open,
      max(high) as high, min(low) as low, (array_agg(close order by open_time desc))[1] as close,
      sum(base_volume) as base_volume, sum(quote_turnover) as quote_turnover
    from market.candles where category = $1 and symbol = $2 and type = 'market' and interval = '1m' and is_closed
      and open_time >= '${begin}' and open_time < '${end}' group by 1) as minutes`
  const expected = await rolledUp(minutes, parameters)
  expect(expected.length).toBeGreaterThan(0)
  expect(await rolledUp(`market.ohlcv($1, $2, '${width}', '${begin}', '${end}')`, parameters)).toEqual(expected)
})

it('show what a backfill changed in a range that was refreshed before', async () => {
  const { db } = created.database
  const [instrument] = instruments
  if (instrument === undefined) throw new Error('there is no instrument')
  const { category, symbol } = instrument
  await refreshRollups(db, [{ from, to }])
  const [candle] = served(world, category, symbol, '1m')
  if (candle === undefined) throw new Error('there is no candle')
  await upsertCandles(db, [{ ...candle, high: '999999999' }])
  await refreshRollups(db, [{ from: candle.openTime, to: candle.openTime + 60_000 }])
  for (const { name } of rollups) {
    const [first] = await rolledUp(`market.${name} where category = $1 and symbol = $2`, [category, symbol])
    expect(first?.[2], name).toBe('999999999')
  }
})
