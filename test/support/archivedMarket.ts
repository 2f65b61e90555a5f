import type { Kysely } from 'kysely'
import type { Database } from '../../src/db/schema.js'
import { recordGap } from '../../src/ledger/gaps.js'
import { upsertCandles } from '../../src/ledger/storeCandles.js'
import { loadCookbookMarket } from './cookbookMarket.js'
import { addCoverage } from './coverage.js'
import { insertFutures } from './insertFutures.js'
import { aCandle } from './marketRows.js'
import { addNoTrade } from './noTradeRanges.js'

const hourMs = 3_600_000
/** The market ends two days later. */
export const archivedFrom = Date.UTC(2026, 2, 2)
const archivedCandles = { category: 'SPOT', symbol: 'RAREUSDT', type: 'market', interval: '1H' } as const

/** The cookbook's market, and what it lacks: silence, a gap over midnight, and a candle that changed later. */
export async function loadArchivedMarket(db: Kysely<Database>): Promise<void> {
  await loadCookbookMarket(db, 15)
  const from = archivedFrom
  const hourly = [0, 1, 2, 5, 26].map((hour) => aCandle({ ...archivedCandles, openTime: from + hour * hourMs }))
  await upsertCandles(db, hourly)
  await addCoverage(db, { stream: 'candles', ...archivedCandles }, [{ from, to: from + 3 * hourMs }])
  await addNoTrade(db, archivedCandles, [{ from: from + 3 * hourMs, to: from + 5 * hourMs }])
  await recordGap(db, {
    stream: 'candles',
    ...archivedCandles,
    range: { from: from + 20 * hourMs, to: from + 26 * hourMs },
    reason: 'the service was away',
  })
  await upsertCandles(db, [aCandle({ ...archivedCandles, openTime: from + hourMs, close: '3.14000' })])
  const tickers = { stream: 'tickers', category: 'SPOT', symbol: '*', type: '', interval: '' } as const
  await recordGap(db, { ...tickers, range: { from: from + 10, to: from + 11 }, reason: 'the spool was full' })
  await insertFutures(db, from)
  const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(db, { stream: 'funding_rates', ...future }, [{ from, to: from + 12 * hourMs }])
  await addCoverage(db, { stream: 'liquidations', ...future }, [{ from, to: from + 24 * hourMs }])
}
