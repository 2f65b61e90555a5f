import { describe, expect, test } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../../../src/market/values.js'
import type { Simulator } from '../../../../src/simulator/server.js'
import type { Quirks } from '../../../../src/simulator/world/quirks.js'
import { ask, noon, type Received, start, stopAfterEach } from '../requests.js'

const btc = 'category=USDT-FUTURES&symbol=BTCUSDT'

stopAfterEach()

const quirky = (quirks: Partial<Quirks>, now = () => noon) => start({ quirks, now })

async function past(simulator: Simulator, from: number, to: number, limit = 1_000): Promise<Received['rows']> {
  const query = `productType=USDT-FUTURES&symbol=BTCUSDT&startTime=${from}&endTime=${to}&limit=${limit}`
  const response = await fetch(`${simulator.url}/api/v2/mix/market/fills-history?${query}`)
  return ((await response.json()) as { data: Received['rows'] }).data
}

const times = (rows: Received['rows'], field = 'ts') => rows.map((row) => Number(row[field]))
const listOf = ({ data }: Received, name: string) => (data as Record<string, Received['rows']>)[name] ?? []
const isRising = (list: readonly number[]) => list.every((time, place) => place === 0 || time >= (list[place - 1] ?? 0))

test('serverClocksMs: each response comes from one of several servers, whose clocks differ', async () => {
  const simulator = await quirky({ serverClocksMs: [0, 0, 280_000] })
  const told: number[] = []
  for (let i = 0; i < 30; i++) told.push((await ask(simulator, `fills?${btc}&limit=1`)).requestTime - noon)
  expect(new Set(told)).toEqual(new Set([0, 280_000]))
  expect(told.filter((ms) => ms === 0).length).toBeGreaterThan(told.length / 3)
})

describe('pages', () => {
  test('pageRows: are cut silently to any size', async () => {
    const pageRows = { fills: 7, 'futures-fills-history': 999, candles: 50, liquidations: 50, 'history-fund-rate': 99 }
    const simulator = await quirky({ pageRows })
    expect((await ask(simulator, `fills?${btc}&limit=100`)).rows).toHaveLength(7)
    expect(await past(simulator, noon - 6 * hourMs, noon)).toHaveLength(999)
    expect((await ask(simulator, `candles?${btc}&interval=1m&limit=1000`)).data).toHaveLength(50)
    const liquidations = listOf(await ask(simulator, `liquidations?${btc}&limit=100`), 'list')
    expect(liquidations.length).toBeGreaterThan(48)
    expect(liquidations.length).toBeLessThan(51)
    const rates = listOf(await ask(simulator, `history-fund-rate?${btc}&limit=100`), 'resultList')
    expect(rates).toHaveLength(99)
  })

  test('oldestFirst: hold the oldest rows of a request', async () => {
    const operations = ['fills', 'futures-fills-history', 'candles', 'liquidations', 'history-fund-rate'] as const
    const simulator = await quirky({ oldestFirst: [...operations] })
    const from = noon - 6 * hourMs
    const truth = simulator.world.fills('USDT-FUTURES', 'BTCUSDT', from, noon)
    expect(times(await past(simulator, from, noon))).toEqual(truth.slice(0, 1_000).map(({ ts }) => Number(ts)))
    expect(isRising(times((await ask(simulator, `fills?${btc}`)).rows))).toBe(true)
    const asked = `candles?${btc}&interval=1m&startTime=${from - 1}&endTime=${noon}&limit=100`
    expect(((await ask(simulator, asked)).data as string[][])[0]?.[0]).toBe(
      String(Math.ceil(from / minuteMs) * minuteMs),
    )
    const first = await ask(simulator, `liquidations?${btc}&limit=100`)
    const { cursor } = first.data as { cursor: string }
    const second = await ask(simulator, `liquidations?${btc}&limit=100&cursor=${cursor}`)
    const liquidations = times([...listOf(first, 'list'), ...listOf(second, 'list')])
    expect(isRising(liquidations)).toBe(true)
    expect(liquidations[0]).toBeLessThan(noon - 3 * dayMs + 2 * hourMs)
    const rates = listOf(await ask(simulator, `history-fund-rate?${btc}`), 'resultList')
    expect(times(rates, 'fundingRateTimestamp')[0]).toBeLessThan(noon - 89 * dayMs)
  })

  test('unordered: are in no order', async () => {
    const simulator = await quirky({ unordered: ['fills', 'futures-fills-history'] })
    for (const rows of [(await ask(simulator, `fills?${btc}`)).rows, await past(simulator, noon - hourMs, noon)]) {
      expect(isRising(times(rows))).toBe(false)
      expect(isRising(times(rows).toReversed())).toBe(false)
      const truth = simulator.world.latestFills('USDT-FUTURES', 'BTCUSDT', noon, rows.length)
      expect(times(rows).toSorted((a, b) => b - a)).toEqual(truth.map(({ ts }) => Number(ts)))
    }
  })

  test('errorsForEmpty: are errors where they would be empty', async () => {
    const simulator = await quirky({ errorsForEmpty: { operations: ['candles'], code: '40020' } })
    const asked = `candles?${btc}&interval=1m&limit=10&endTime=`
    expect((await ask(simulator, `${asked}${noon - 60 * dayMs}`)).code).toBe('40020')
    expect((await ask(simulator, `${asked}${noon}`)).code).toBe('00000')
  })
})

describe('rows', () => {
  test('fillsEarlierMs: fills leave their order by up to so much, and stay in their minutes', async () => {
    const simulator = await quirky({ fillsEarlierMs: 1_500 })
    const shown = times((await ask(simulator, `fills?${btc}`)).rows)
    const ahead = shown.map((time, place) => time - Math.min(...shown.slice(0, place + 1)))
    expect(Math.max(...ahead)).toBeGreaterThan(500)
    expect(Math.max(...ahead)).toBeLessThanOrEqual(1_500)
    const rows = await past(simulator, noon - hourMs, noon)
    for (const time of times(rows)) expect(time).toBeGreaterThanOrEqual(noon - hourMs)
  })

  test('crowdedFills: fills of a range share a millisecond', async () => {
    const from = noon - hourMs
    const range = { from, to: from + 20_000 }
    const simulator = await quirky({ crowdedFills: [range] })
    const crowd = simulator.world.fills('USDT-FUTURES', 'BTCUSDT', range.from, range.to)
    expect(crowd.length).toBeGreaterThan(3)
    const rows = await past(simulator, from - 5_000, from + 5_000)
    expect(times(rows).filter((time) => time === from)).toHaveLength(crowd.length)
    expect(times(rows).filter((time) => time > from)).toEqual([])
  })

  test('flappingFills: prices differ from response to response', async () => {
    let now = noon
    const simulator = await quirky({ flappingFills: 0.5 }, () => now)
    const seen = new Map<string, Set<string>>()
    for (let count = 0; count < 10; count++, now += 10) {
      for (const { execId = '', price = '' } of (await ask(simulator, `fills?${btc}`)).rows)
        seen.set(execId, (seen.get(execId) ?? new Set()).add(price))
    }
    const flapping = [...seen.values()].filter((prices) => prices.size === 2).length
    expect(flapping / seen.size).toBeGreaterThan(0.3)
    expect(flapping / seen.size).toBeLessThan(0.7)
  })

  test('settlementsLateMs: settlements have other milliseconds in each response', async () => {
    let now = noon
    const simulator = await quirky({ settlementsLateMs: 7 }, () => now)
    const shown = async () =>
      times(listOf(await ask(simulator, `history-fund-rate?${btc}`), 'resultList'), 'fundingRateTimestamp')
    const first = await shown()
    now += 1
    const second = await shown()
    expect(first).not.toEqual(second)
    for (const time of [...first, ...second]) expect(time % hourMs).toBeLessThanOrEqual(7)
  })

  test('hiddenEvents, liquidationsHaveCursor: rows and cursors are left out', async () => {
    const range = { from: noon - 2 * dayMs, to: noon - dayMs }
    const operations = ['history-fund-rate', 'liquidations'] as const
    const hiddenEvents = operations.map((operation) => ({ operation, ...range }))
    const simulator = await quirky({ hiddenEvents, liquidationsHaveCursor: false })
    const page = await ask(simulator, `liquidations?${btc}&limit=100`)
    expect(page.data).toMatchObject({ cursor: '' })
    const rates = listOf(await ask(simulator, `history-fund-rate?${btc}`), 'resultList')
    for (const time of [...times(listOf(page, 'list')), ...times(rates, 'fundingRateTimestamp')])
      expect(time >= range.from && time < range.to).toBe(false)
  })

  test('fillsHistoryIds: one category may have other ids than another', async () => {
    const simulator = await quirky({ fillsHistoryIds: { SPOT: 'other' } })
    const spot = await fetch(`${simulator.url}/api/v2/spot/market/fills-history?symbol=BTCUSDT&limit=1`)
    expect(((await spot.json()) as { data: Received['rows'] }).data[0]?.['tradeId']).toMatch(/^9/)
    expect((await past(simulator, noon - hourMs, noon, 1))[0]?.['tradeId']).toMatch(/^1/)
  })
})
