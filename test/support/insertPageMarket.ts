import type { Kysely } from 'kysely'
import type { Database } from '../../src/db/schema.js'
import { appendRows } from '../../src/db/writeRows.js'
import { recordGap } from '../../src/ledger/gaps.js'
import { recordInstruments } from '../../src/ledger/instruments.js'
import { upsertCandles } from '../../src/ledger/storeCandles.js'
import type { Candle } from '../../src/market/candle.js'
import { aBook, aCandle, aTicker, anInstrument, anRpiBook } from './marketRows.js'
import { addCoverage } from './coverage.js'

const minute = 60_000
const dayMs = 86_400_000
const series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

/** Stores a market of four instruments: candles of four hours from `noon` on, tickers and books of `now`. */
export async function insertPageMarket(db: Kysely<Database>, noon: number, now: number): Promise<void> {
  const today = Math.floor(now / dayMs) * dayMs
  const spot = ['BTCUSDT', 'ETHUSDT', 'ETHBTC'].map((symbol) =>
    anInstrument({ symbol, status: 'online', baseCoin: symbol.slice(0, 3), quoteCoin: symbol.slice(3) }),
  )
  await recordInstruments(db, 'SPOT', spot, noon, { complete: true })
  await recordInstruments(db, 'USDT-FUTURES', [anInstrument({ category: 'USDT-FUTURES', symbol: 'BTCUSDT' })], noon, {
    complete: true,
  })
  await upsertCandles(db, candlesFrom(noon, 240))
  const proven = { from: noon, to: noon + 240 * minute }
  await addCoverage(db, series, [proven, { from: today - dayMs, to: today }])
  await recordGap(db, {
    ...series,
    range: { from: noon - 10 * minute, to: noon },
    reason: 'it was off',
    verdict: 'lost',
  })
  const ts = now - 30_000
  const tickers = Array.from({ length: 60 }, (_, i) =>
    aTicker({ ts: ts - i * 5_000, lastPrice: '100.10', bid1Price: '100', ask1Price: '100.1', turnover24h: '5' }),
  )
  await appendRows(db, 'tickers', [
    ...tickers,
    aTicker({ category: 'USDT-FUTURES', ts, fundingRate: '0.000149', lastPrice: '7', turnover24h: '4' }),
  ])
  await appendRows(db, 'order_books', [aBook({ ts }), aBook({ ts, symbol: 'ETHUSDT' })])
  await appendRows(db, 'rpi_order_books', [anRpiBook({ ts: ts - 1000 })])
}

function candlesFrom(from: number, count: number): Candle[] {
  return Array.from({ length: count }, (_, i) =>
    // An extreme number of decimals, and one that still forms at the end.
    aCandle({ openTime: from + i * minute, close: `${i}.000000000000000001`, isClosed: i < count - 1 }),
  )
}
