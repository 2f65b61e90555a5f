import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { Decimal, TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'

export interface TickerRow {
  readonly ts: TimeMs
  readonly receivedAt: TimeMs
  readonly lastPrice: Decimal | null
  readonly bid1Price: Decimal | null
  readonly ask1Price: Decimal | null
  readonly price24hPcnt: Decimal | null
  readonly volume24h: Decimal | null
  readonly turnover24h: Decimal | null
  readonly platformTurnover24h: Decimal | null
  readonly markPrice: Decimal | null
  readonly indexPrice: Decimal | null
  readonly fundingRate: Decimal | null
  readonly openInterest: Decimal | null
}

/** Summary of the tickers in a span of time. */
export interface TickerPoint {
  /** Begin of the span. */
  readonly time: TimeMs
  /** The newest funding rate in it, a fraction. */
  readonly fundingRate: Decimal | null
  /** Mean and highest of (best ask − best bid) / middle, in basis points, rounded to four places. */
  readonly spreadBps: Decimal | null
  readonly maxSpreadBps: Decimal | null
}

export async function latestTicker(db: Kysely<Database>, key: InstrumentKey): Promise<TickerRow | null> {
  const { rows } = await sql<TickerRow>`
    select ts, received_at as "receivedAt", last_price as "lastPrice", bid1_price as "bid1Price",
      ask1_price as "ask1Price", price_24h_pcnt as "price24hPcnt", volume_24h as "volume24h",
      turnover_24h as "turnover24h", platform_turnover_24h as "platformTurnover24h",
      mark_price as "markPrice", index_price as "indexPrice", funding_rate as "fundingRate", open_interest as "openInterest"
    from market.tickers
    where category = ${key.category} and symbol = ${key.symbol}
    order by ts desc limit 1`.execute(db)
  return rows[0] ?? null
}

/** Funding rate and spread over time, one point for each `stepMs` in which there were tickers, ascending. */
export async function tickerHistory(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  range: TimeRange,
  stepMs: number,
): Promise<TickerPoint[]> {
  const { rows } = await sql<TickerPoint>`
    select date_bin(make_interval(secs => ${stepMs / 1000}), ts, timestamptz 'epoch') as time,
      (array_agg(funding_rate order by ts desc))[1] as "fundingRate",
      round(avg(bps), 4) as "spreadBps", round(max(bps), 4) as "maxSpreadBps"
    from (
      select ts, funding_rate,
        (ask1_price - bid1_price) * 20000 / nullif(ask1_price + bid1_price, 0) as bps
      from market.tickers
      where category = ${category} and symbol = ${symbol}
        and ts >= ${toDate(range.from)}::timestamptz and ts < ${toDate(range.to)}::timestamptz
    ) as t
    group by 1
    order by 1`.execute(db)
  return rows
}
