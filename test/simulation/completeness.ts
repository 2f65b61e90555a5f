import type pg from 'pg'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { Service } from '../../src/simulator/service.js'
import type { WorldInstrument } from './worldPlan.js'

/** The stored part of what happened in a market. */
export interface Completeness {
  readonly fills: number
  readonly storedFills: number
  /** Not stored, and lost according to a gap. */
  readonly fillsInGaps: number
  /** Not stored yet: newer than the newest stored row of the instrument, and asked for later. */
  readonly fillsToCome: number
  readonly candles: number
  readonly storedCandles: number
  readonly books: number
  readonly tickers: number
}

/** Counts fills and minute candles that ended between two moments, and how many of them are stored. */
export async function completenessOf(
  pool: pg.Pool,
  { world }: Service,
  instruments: readonly WorldInstrument[],
  { from, to }: TimeRange,
): Promise<Completeness> {
  const count = async (text: string) =>
    (await pool.query<{ count: number }>(text, [new Date(from), new Date(to)])).rows[0]?.count ?? 0
  const sums = { fills: 0, storedFills: 0, fillsInGaps: 0, fillsToCome: 0, candles: 0 }
  for (const { category, symbol } of instruments) {
    const happened = world.fills(category, symbol, from, to)
    const stored = await storedIds(pool, category, symbol)
    const gaps = await gapsOf(pool, category, symbol)
    const last = happened.findLastIndex(({ execId }) => stored.has(execId))
    for (const [place, { execId, ts }] of happened.entries()) {
      sums.fills++
      if (stored.has(execId)) sums.storedFills++
      else if (gaps.some((gap) => gap.from <= Number(ts) && Number(ts) < gap.to)) sums.fillsInGaps++
      else if (place > last) sums.fillsToCome++
    }
    sums.candles += world.candles({ category, symbol, type: 'market', interval: '1m' }, from, to, to + 60_000).length
  }
  const within = 'where ts >= $1 and ts < $2'
  return {
    ...sums,
    storedCandles: await count(
      `select count(*)::int as count from market.candles
       where is_closed and type = 'market' and interval = '1m' and open_time >= $1 and open_time < $2`,
    ),
    books: await count(`select count(*)::int as count from market.order_books ${within}`),
    tickers: await count(`select count(*)::int as count from market.tickers ${within}`),
  }
}

async function storedIds(pool: pg.Pool, category: string, symbol: string): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ readonly id: string }>(
    'select exec_id as id from market.fills where category = $1 and symbol = $2',
    [category, symbol],
  )
  return new Set(rows.map(({ id }) => id))
}

async function gapsOf(pool: pg.Pool, category: string, symbol: string): Promise<readonly TimeRange[]> {
  const { rows } = await pool.query<TimeRange>(
    `select (extract(epoch from lower(range)) * 1000)::float8 as "from",
       (extract(epoch from upper(range)) * 1000)::float8 as "to"
     from recorder_page.gap where stream = 'fills' and category = $1 and symbol in ($2, '*') and state <> 'repaired'`,
    [category, symbol],
  )
  return rows
}

export function completenessText(of: Completeness): string {
  const share = (some: number, all: number) => `${some} of ${all} (${((100 * some) / Math.max(1, all)).toFixed(3)} %)`
  const missing = of.fills - of.storedFills
  const why = `${of.fillsInGaps} in recorded gaps, ${of.fillsToCome} newer than what was asked for`
  return [
    `fills ${share(of.storedFills, of.fills)}${missing === 0 ? '' : `; missing: ${missing}, ${why}`}`,
    `candles ${share(of.storedCandles, of.candles)}`,
    `${of.books} order books`,
    `${of.tickers} tickers`,
  ].join('; ')
}
