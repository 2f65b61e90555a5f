import type pg from 'pg'
import type { Category } from '../../src/market/category.js'
import type { FillRow } from '../../src/simulator/world/fillRows.js'
import type { World } from '../../src/simulator/world/world.js'

export interface GapReport {
  readonly lostFills: number
  readonly gaps: number
  /** Share of the lost fills that lie in a recorded gap. */
  readonly recall: number
  /** Share of the recorded gaps in which fills were lost. */
  readonly precision: number
  /**
   * Gaps in which nothing was lost, in a minute of which something else is not recorded. Two full answers that adjoin
   * without sharing a fill look like answers with a gap between them; a candle shows that a minute is complete, but not
   * which of its gaps are none. Nor can anything be told of a minute whose candle is not recorded, or so late that the
   * daemon had no time to compare it.
   */
  readonly undecidable: number
  readonly wrong: readonly string[]
  /** Instruments in whose proven stretches a fill is missing. */
  readonly falseClaims: readonly string[]
}

/** How many of the minutes (counted from the epoch, both included) have a closed candle: only that can tell a gap from none. */
async function closedMinutes(
  pool: pg.Pool,
  category: string,
  symbol: string,
  first: number,
  last: number,
): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from market.candles
     where category = $1 and symbol = $2 and type = 'market' and interval = '1m' and is_closed
       and open_time between to_timestamp($3) and to_timestamp($4)`,
    [category, symbol, first * 60, last * 60],
  )
  return rows[0]?.count ?? 0
}

/**
 * Compares the recorded gaps of fills with the fills that really happened between the first and the last stored one.
 *
 * @param judgedUntil minutes that ended before this have been compared with their candles by the daemon
 */
export async function compareGaps(pool: pg.Pool, world: World, judgedUntil: number): Promise<GapReport> {
  const { rows: instruments } = await pool.query<{ category: Category; symbol: string; first: number; last: number }>(
    `select category, symbol, (extract(epoch from min(ts)) * 1000)::float8 as first,
       (extract(epoch from max(ts)) * 1000)::float8 as last
     from market.fills group by category, symbol`,
  )
  const wrong: string[] = []
  const falseClaims: string[] = []
  let lostFills = 0
  let found = 0
  let gapCount = 0
  let rightGaps = 0
  let undecidable = 0
  for (const { category, symbol, first, last } of instruments) {
    const key = [category, symbol]
    const { rows: stored } = await pool.query<{ id: string }>(
      'select exec_id as id from market.fills where category = $1 and symbol = $2',
      key,
    )
    const { rows: gaps } = await pool.query<{ from: number; to: number }>(
      `select (extract(epoch from lower(range)) * 1000)::float8 as "from",
         (extract(epoch from upper(range)) * 1000)::float8 as "to"
       from recorder_page.gap where stream = 'fills' and category = $1 and symbol = $2 and state <> 'repaired'`,
      key,
    )
    const { rows: covered } = await pool.query<{ from: number; to: number }>(
      `select (extract(epoch from lower(r)) * 1000)::float8 as "from",
         (extract(epoch from upper(r)) * 1000)::float8 as "to"
       from recorder_page.coverage, unnest(ranges) r where stream = 'fills' and category = $1 and symbol = $2`,
      key,
    )
    const ids = new Set(stored.map(({ id }) => id))
    const isIn = (ts: number) => (range: { from: number; to: number }) => range.from <= ts && ts < range.to
    // By their order, not by time: others of the first one's millisecond may have happened before the recording began.
    const happened = world.fills(category, symbol, first, last + 1)
    const isStored = ({ execId }: FillRow) => ids.has(execId)
    const lost = happened
      .slice(happened.findIndex(isStored), happened.findLastIndex(isStored))
      .filter((fill) => !isStored(fill))
      .map(({ ts }) => Number(ts))
    lostFills += lost.length
    gapCount += gaps.length
    for (const ts of lost) {
      if (gaps.some(isIn(ts))) found++
      else wrong.push(`${category} ${symbol}: a fill at ${new Date(ts).toISOString()} is lost without a gap`)
      if (covered.some(isIn(ts)))
        falseClaims.push(
          `${category} ${symbol}: a fill at ${new Date(ts).toISOString()} is missing in a proven stretch`,
        )
    }
    for (const gap of gaps) {
      const [first, last] = [Math.floor(gap.from / 60_000), Math.floor((gap.to - 1) / 60_000)]
      if (lost.some((ts) => isIn(ts)(gap))) rightGaps++
      // Also one of before the recording began, or of after its end.
      else if (!world.fills(category, symbol, first * 60_000, (last + 1) * 60_000).every(isStored)) undecidable++
      else if ((last + 1) * 60_000 > judgedUntil) undecidable++
      else if ((await closedMinutes(pool, category, symbol, first, last)) < last - first + 1) undecidable++
      else
        wrong.push(
          `${category} ${symbol}: nothing was lost between ${new Date(gap.from).toISOString()} and ${new Date(gap.to).toISOString()}`,
        )
    }
  }
  return {
    lostFills,
    gaps: gapCount,
    recall: lostFills === 0 ? 1 : found / lostFills,
    precision: gapCount === 0 ? 1 : rightGaps / gapCount,
    undecidable,
    wrong,
    falseClaims,
  }
}
