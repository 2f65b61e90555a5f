import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../../src/market/candle.js'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { Database } from '../../src/db/schema.js'
import { ofCandles } from '../../src/db/series.js'
import { callOfCandles } from '../../src/ledger/verdicts.js'

/** The ranges of a series in which nothing was traded, ascending. */
export async function noTradeRanges(
  db: Kysely<Database>,
  series: CandleSeries,
): Promise<(TimeRange & { readonly isConfirmed: boolean })[]> {
  const { rows } = await sql<TimeRange & { isConfirmed: boolean }>`
    select from_time as "from", to_time as "to", is_confirmed as "isConfirmed"
    from market.no_trade
    where ${ofCandles(series)} order by 1`.execute(db)
  return rows
}

/** Claims that nothing was traded in these ranges, as a response does that leaves out candles between two. */
export async function addNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  silence: readonly TimeRange[],
): Promise<void> {
  await callOfCandles(db, 'claim_candles', series, [], silence)
}
