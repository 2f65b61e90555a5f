import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Candle,
  chartGapsOf,
  mergeCandles,
  placesOf,
  slotsOf,
  widened,
  withTrades,
} from '../../../../../src/serve/page/chart/model.js'

const minute = 60_000
const nothing = { covered: [], gaps: [] }

function candle(index: number, changes: Partial<Candle> = {}): Candle {
  const values = { open: '1', high: '1', low: '1', close: '1', baseVolume: '0', quoteTurnover: '0' }
  return { openTime: index * minute, isClosed: true, isComplete: true, ...values, ...changes }
}

function gap(from: number, to: number, state: 'open' | 'lost' | 'repaired') {
  return { from: from * minute, to: to * minute, state, reason: 'x', detectedAt: 0 }
}

describe('gaps in a chart', () => {
  const candles = [0, 1, 5, 6].map((index) => candle(index))
  const missing = { from: 2 * minute, to: 5 * minute }

  test('candles that are not there', () => {
    expect(chartGapsOf(candles, minute, nothing, 7 * minute)).toEqual([{ ...missing, kind: 'missing' }])
  })

  test('proven to be empty', () => {
    const covered = [{ from: 0, to: 7 * minute }]
    expect(chartGapsOf(candles, minute, { covered, gaps: [] }, 7 * minute)).toEqual([{ ...missing, kind: 'empty' }])
  })

  test('lost for good', () => {
    const chartGaps = chartGapsOf(candles, minute, { covered: [], gaps: [gap(2, 5, 'lost')] }, 7 * minute)
    expect(chartGaps).toEqual([{ ...missing, kind: 'lost' }])
  })

  test('a known gap among candles that are there', () => {
    const chartGaps = chartGapsOf(
      [0, 1, 2].map((index) => candle(index)),
      minute,
      { covered: [], gaps: [gap(1, 2, 'open')] },
      0,
    )
    expect(chartGaps).toEqual([{ from: minute, to: 2 * minute, kind: 'missing' }])
  })

  test('one that was repaired is none', () => {
    const all = [0, 1, 2].map((index) => candle(index))
    expect(chartGapsOf(all, minute, { covered: [], gaps: [gap(1, 2, 'repaired')] }, 0)).toEqual([])
  })

  test('the time since the newest candle, once it is late', () => {
    expect(chartGapsOf([candle(0)], minute, nothing, 2.5 * minute)).toEqual([])
    expect(chartGapsOf([candle(0)], minute, nothing, 9.5 * minute)).toEqual([
      { from: minute, to: 9 * minute, kind: 'missing' },
    ])
  })

  test('a candle that lacks a part, unless it still forms or a known gap says so', () => {
    const part = { isComplete: false }
    const all = [candle(0), candle(1, part), candle(2, { ...part, isClosed: false }), candle(3, part)]
    const forming = candle(4, { ...part, isClosed: false })
    const known = { covered: [], gaps: [gap(3, 4, 'lost')] }
    expect(chartGapsOf([...all, forming], minute, known, 5 * minute)).toEqual([
      { from: minute, to: 2 * minute, kind: 'missing' },
      { from: 2 * minute, to: 3 * minute, kind: 'missing' },
      { from: 3 * minute, to: 4 * minute, kind: 'lost' },
    ])
  })

  test('a candle that has just closed is none before it is read again', () => {
    const ofTrades = (index: number) => candle(index, { isClosed: false, isComplete: false })
    const chartGapsAt = (until: number) => chartGapsOf([candle(0), ofTrades(1), ofTrades(2)], minute, nothing, until)
    expect(chartGapsAt(2.1 * minute)).toEqual([])
    expect(chartGapsAt(3 * minute)).toEqual([{ from: minute, to: 2 * minute, kind: 'missing' }])
  })

  test('daily candles that open at 16:00 keep their places', () => {
    const day = 86_400_000
    const daily = [0, 1, 2].map((index) => candle(0, { openTime: index * day + 16 * 3_600_000 }))
    const known = { covered: [], gaps: [{ ...gap(0, 1, 'open'), from: 1.9 * day, to: 2 * day }] }
    expect(chartGapsOf(daily, day, known, 0)[0]?.from).toBe(day + 16 * 3_600_000)
  })
})

test('of two candles with the same time the newer reading counts', () => {
  const merged = mergeCandles([candle(1), candle(2, { isClosed: false }), candle(2, { close: '9' }), candle(3)])
  expect(merged.map(({ openTime, close, isClosed }) => [openTime / minute, close, isClosed])).toEqual([
    [1, '1', true],
    [2, '9', true],
    [3, '1', true],
  ])
})

describe('candles that follow trades', () => {
  const trade = (index: number, price: string) => ({ ts: index * minute, price })

  test('one that forms takes their prices', () => {
    const [formed] = withTrades([candle(1, { isClosed: false })], [trade(1.9, '0.5'), trade(1.2, '3')], minute)
    const unknown = { baseVolume: null, quoteTurnover: null }
    expect(formed).toEqual(candle(1, { isClosed: false, high: '3', low: '0.5', close: '0.5', ...unknown }))
  })

  test('one that forms stays as wide as it was, since an event shows only the newest trades', () => {
    const forms = (high: string, low: string) => candle(1, { isClosed: false, open: '2', high, low })
    expect(widened([candle(0), forms('3', '2')], forms('4', '1'))).toEqual([candle(0), forms('4', '1')])
    expect(widened([candle(0)], forms('4', '1'))).toEqual([candle(0)])
    expect(widened([candle(1)], forms('4', '1'))).toEqual([candle(1)])
  })

  test('one that is closed does not, and a newer trade begins another', () => {
    const candles = [candle(0), candle(1)]
    expect(withTrades(candles, [trade(0.5, '9'), trade(1.5, '9')], minute)).toEqual(candles)
    const prices = { open: '2', high: '4', low: '2', close: '4' }
    const begun = { ...prices, baseVolume: null, quoteTurnover: null, isClosed: false, isComplete: false }
    const followed = withTrades(candles, [trade(2.5, '4'), trade(2.1, '2')], minute)
    expect(followed).toEqual([...candles, { openTime: 2 * minute, ...begun }])
  })
})

test('a long gap takes no more room than forty candles', () => {
  expect(placesOf({ from: 0, to: 1e9 }, minute)).toHaveLength(40)
})

test('places on the axis ascend, none is taken twice, and no candle is left out', () => {
  const indexes = fc.uniqueArray(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 50 })
  fc.assert(
    fc.property(indexes, fc.integer({ min: 0, max: 300 }), (given, until) => {
      const candles = given.toSorted((a, b) => a - b).map((index) => candle(index))
      const slots = slotsOf(candles, chartGapsOf(candles, minute, nothing, until * minute), minute)
      const times = slots.map(({ time }) => time)
      expect(times).toEqual([...new Set(times)].toSorted((a, b) => a - b))
      expect(slots.flatMap((slot) => (slot.candle === null ? [] : [slot.candle]))).toEqual(candles)
    }),
  )
})
