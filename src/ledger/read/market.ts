import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import type { Decimal, TimeMs } from '../../market/values.js'

/** An instrument with what its newest ticker says. */
export interface MarketRow {
  readonly category: Category
  readonly symbol: string
  readonly quoteCoin: string | null
  readonly kind: InstrumentKind
  readonly ts: TimeMs
  readonly lastPrice: Decimal | null
  readonly price24hPcnt: Decimal | null
  /**
   * Turnover of the last 24 hours on this service. A tokenised stock trades mostly elsewhere, and may have null here.
   */
  readonly turnover: Decimal | null
  readonly spreadBps: Decimal | null
  readonly fundingRate: Decimal | null
}

/** Every listed instrument with a ticker of the last hour; the bound keeps older chunks out of the search. */
export async function readMarket(db: Kysely<Database>): Promise<MarketRow[]> {
  const { rows } = await sql<MarketRow>`
    select i.category, i.symbol, i.quote_coin as "quoteCoin", i.kind, t.ts, t.last_price as "lastPrice",
      t.price_24h_pcnt as "price24hPcnt",
      case
        when t.platform_turnover_24h > 0 then t.platform_turnover_24h
        when i.kind = 'tokenised_stock' then null
        else t.turnover_24h
      end as turnover,
      round((t.ask1_price - t.bid1_price) * 20000 / nullif(t.ask1_price + t.bid1_price, 0), 2) as "spreadBps",
      t.funding_rate as "fundingRate"
    from market.instruments i
    cross join lateral (
      select * from market.tickers t
      where t.category = i.category and t.symbol = i.symbol and t.ts > now() - interval '1 hour'
      order by t.ts desc limit 1
    ) t
    where i.disappeared_at is null and i.category <> 'MARGIN'`.execute(db)
  return rows
}

export interface NewestFill {
  readonly ts: TimeMs
  readonly execId: string
  readonly side: 'buy' | 'sell'
  readonly price: Decimal
  readonly size: Decimal
}

/** The newest fills of the last hour, the newest first. */
export async function newestFills(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  limit: number,
): Promise<NewestFill[]> {
  const { rows } = await sql<NewestFill>`
    select ts, exec_id as "execId", side::text as side, price, size
    from market.fills
    where category = ${category} and symbol = ${symbol} and ts > now() - interval '1 hour'
    order by ts desc, exec_id desc limit ${limit}`.execute(db)
  return rows
}
