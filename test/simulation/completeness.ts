import type pg from 'pg'
import type { Service } from '../../src/simulator/service.js'
import type { WorldInstrument } from './worldPlan.js'

/** What of a market is stored, against what happened. */
export interface Completeness {
  readonly fills: number
  readonly storedFills: number
  readonly candles: number
  readonly storedCandles: number
  readonly books: number
  readonly tickers: number
}

/** Counts fills and candles of a minute that ended between two moments, and what of them is stored. */
export async function completenessOf(
  pool: pg.Pool,
  { world }: Service,
  instruments: readonly WorldInstrument[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<Completeness> {
  const count = async (text: string) =>
    (await pool.query<{ count: number }>(text, [new Date(from), new Date(to)])).rows[0]?.count ?? 0
  let [fills, candles] = [0, 0]
  for (const { category, symbol } of instruments) {
    fills += world.fills(category, symbol, from, to).length
    candles += world.candles({ category, symbol, type: 'market', interval: '1m' }, from, to, to + 60_000).length
  }
  const within = 'where ts >= $1 and ts < $2'
  return {
    fills,
    storedFills: await count(`select count(*)::int as count from market.fills ${within}`),
    candles,
    storedCandles: await count(
      `select count(*)::int as count from market.candles
       where is_closed and type = 'market' and interval = '1m' and open_time >= $1 and open_time < $2`,
    ),
    books: await count(`select count(*)::int as count from market.order_books ${within}`),
    tickers: await count(`select count(*)::int as count from market.tickers ${within}`),
  }
}

export function completenessText({ fills, storedFills, candles, storedCandles, books, tickers }: Completeness): string {
  const share = (some: number, all: number) => `${some} of ${all} (${((100 * some) / Math.max(1, all)).toFixed(3)} %)`
  return `fills ${share(storedFills, fills)}, candles ${share(storedCandles, candles)}, ${books} order books, ${tickers} tickers`
}
