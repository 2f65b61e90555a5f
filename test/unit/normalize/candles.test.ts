import { expect, test } from 'vitest'
import { normalizeCandle } from '../../../src/normalize/candles.js'

const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
const payload = {
  openTime: 60_000,
  open: '1',
  high: '2',
  low: '0.5',
  close: '1.50',
  baseVolume: '0',
  quoteTurnover: '0',
}

test('a candle is final only after its close and the settle delay, by the clock of the service', () => {
  const isClosedAt = (requestTime: number) =>
    normalizeCandle(payload, series, { requestTime, receivedAt: Number.MAX_SAFE_INTEGER }, 5000).isClosed
  expect(isClosedAt(119_999)).toBe(false)
  expect(isClosedAt(120_000)).toBe(false)
  expect(isClosedAt(124_999)).toBe(false)
  expect(isClosedAt(125_000)).toBe(true)
})

test('decimals stay as they were sent', () => {
  const candle = normalizeCandle(payload, series, { requestTime: 0, receivedAt: 0 }, 0)
  expect(candle).toMatchObject({ ...series, ...payload })
})
