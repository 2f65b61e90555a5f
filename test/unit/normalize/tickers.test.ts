import { expect, test } from 'vitest'
import type { TickerPayload } from '../../../src/exchange/payloads.js'
import { normalizeTicker } from '../../../src/normalize/tickers.js'

const answer = { requestTime: 2_000, receivedAt: 3_000 }
const payload = { symbol: 'BTCUSDT', lastPrice: '240.00', extra: { new: 'x' } } as unknown as TickerPayload

test('a ticker without a generation time takes the time of the response', () => {
  expect(normalizeTicker({ ...payload, ts: null }, 'SPOT', answer)).toMatchObject({ ts: 2_000, receivedAt: 3_000 })
  expect(normalizeTicker({ ...payload, ts: 1_500 }, 'SPOT', answer)).toMatchObject({ ts: 1_500, receivedAt: 3_000 })
})
test('the category is the one that was asked for', () => {
  expect(normalizeTicker({ ...payload, ts: 1 }, 'USDC-FUTURES', answer)).toMatchObject({
    category: 'USDC-FUTURES',
    lastPrice: '240.00',
    extra: { new: 'x' },
  })
})
