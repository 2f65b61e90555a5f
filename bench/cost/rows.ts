import type { InstrumentKey } from '../../src/market/category.js'
import type { Candle } from '../../src/market/candle.js'
import type { Fill } from '../../src/market/rows.js'
import { minuteMs, type TimeMs } from '../../src/market/values.js'
import type { Batch } from '../../src/ledger/batch.js'

export const candlesOfPage = 1_000

/** Closed candles of a minute, page by page from `from` on; the same on every run. */
export function candlePage(symbol: string, page: number, from: TimeMs): Candle[] {
  return Array.from({ length: candlesOfPage }, (_, index): Candle => {
    const number = page * candlesOfPage + index
    return {
      category: 'USDT-FUTURES',
      symbol,
      type: 'market',
      interval: '1m',
      openTime: from + number * minuteMs,
      open: `${60_000 + (number % 977)}.1`,
      high: `${60_010 + (number % 977)}.25`,
      low: `${59_990 + (number % 977)}.1`,
      close: `${60_001 + (number % 977)}.7`,
      baseVolume: `${(number * 7) % 1000}.1234`,
      quoteTurnover: `${(number * 13) % 100_000}.12345678`,
      isClosed: true,
    }
  })
}

/** A response of 100 fills, ten a second, half of which the one before has shown. */
export function fillPage(symbol: string, page: number, from: TimeMs): Batch<InstrumentKey, Fill> {
  const requestTime = from + page * 5_000 + 10_000
  const rows = Array.from({ length: 100 }, (_, index): Fill => {
    const number = page * 50 + index
    const ts = from + number * 100
    const fixed = {
      category: 'SPOT',
      symbol,
      execLinkId: null,
      isRpi: null,
      receivedAt: requestTime,
      extra: {},
    } as const
    return { ...fixed, ts, execId: `${ts}`, side: 'buy', price: '100.5', size: `0.0${number % 97}` }
  })
  return {
    stream: 'fills',
    target: { category: 'SPOT', symbol },
    requestTime,
    receivedAt: requestTime,
    rows,
    rejected: [],
  }
}
