import { expect, test } from 'vitest'
import { ExchangeError } from '../../../src/exchange/errors.js'
import { PageSource } from '../../../src/history/candleSlice.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { aCandle, someTime } from '../../support/marketRows.js'

const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

/** Requests pages of an hour each, which lack every other candle. Resolves to the silence that is collected. */
async function silenceOf(pages: number, reviewed: readonly TimeRange[]): Promise<readonly TimeRange[]> {
  const from = (page: number) => someTime + page * hourMs
  const page = (start: number) => ({
    rows: Array.from({ length: 31 }, (_, place) => aCandle({ openTime: start + 2 * place * minuteMs })),
    rejected: [],
    unkept: 0,
    requestTime: start + 2 * hourMs,
  })
  let asked = 0
  const source = new PageSource({
    client: {} as never,
    series,
    settleMs: 0,
    requests: { ask: () => Promise.resolve(page(from(asked++))) } as never,
    store: () => Promise.resolve(),
    reviewed,
  })
  for (let place = 0; place < pages; place++)
    await source.ask({ operation: 'candles', window: { from: from(place), to: from(place + 1) } })
  return source.silence
}

test('silence is collected of reviewed ranges alone, however many pages there are', async () => {
  expect(await silenceOf(100, [])).toEqual([])
  const reviewed = [{ from: someTime + hourMs, to: someTime + hourMs + 4 * minuteMs }]
  const silent = [1, 3].map((minute) => someTime + hourMs + minute * minuteMs)
  expect(await silenceOf(100, reviewed)).toEqual(silent.map((from) => ({ from, to: from + minuteMs })))
})

test('a page shows what it lacks if all of its rows are stored, and neither an error nor an empty body does', async () => {
  const window = { from: someTime, to: someTime + hourMs }
  const whole = { rows: [aCandle()], rejected: [], unkept: 0, requestTime: someTime + hourMs, hasEnvelope: true }
  const ask = (response: Promise<unknown>) => {
    const requests = { ask: () => response } as never
    const more = { settleMs: 0, store: () => Promise.resolve(), reviewed: [] }
    return new PageSource({ client: {} as never, series, requests, ...more }).ask({ operation: 'candles', window })
  }
  const pages = [
    whole,
    { ...whole, rejected: [{}] },
    { ...whole, unkept: 1 },
    { ...whole, rows: [], hasEnvelope: false },
  ]
  const given = await Promise.all(pages.map((page) => ask(Promise.resolve(page))))
  expect(given.map(({ lack }) => lack)).toEqual(['shown', 'unclear', 'unclear', 'untold'])
  const refused = new ExchangeError('bad-request', { operation: 'candles', parameters: {}, what: 'refused' })
  expect(await ask(Promise.reject(refused))).toMatchObject({ openTimes: [], lack: 'untold' })
})
