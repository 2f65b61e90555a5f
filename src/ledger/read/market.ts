import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import type { Decimal, TimeMs } from '../../market/values.js'
import type { TimeRange } from '../../market/timeRange.js'
import { toDate } from '../../db/columns.js'

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

interface NewestFill {
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

interface TickerRow {
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
interface TickerPoint {
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

interface BookSide {
  readonly prices: Decimal[]
  /** Visible size at each price. */
  readonly sizes: Decimal[]
  /** RPI size at each price; null when the snapshot does not include it. */
  readonly rpiSizes: Decimal[] | null
}

interface BookRow {
  readonly ts: TimeMs
  readonly receivedAt: TimeMs
  readonly bids: BookSide
  readonly asks: BookSide
}

interface StoredBook {
  readonly ts: TimeMs
  readonly receivedAt: TimeMs
  readonly bidPrices: Decimal[]
  readonly bidSizes: Decimal[]
  readonly bidRpiSizes: Decimal[] | null
  readonly askPrices: Decimal[]
  readonly askSizes: Decimal[]
  readonly askRpiSizes: Decimal[] | null
}

/** How much newer a book without RPI sizes must be to be worth more than one with them. */
const rpiTrustMs = 60_000

/** The newest snapshot of an instrument, cut to `depth` levels a side; one that tells the RPI part where there is one. */
export async function latestBook(db: Kysely<Database>, key: InstrumentKey, depth: number): Promise<BookRow | null> {
  const [plain, rpi] = await Promise.all([newest(db, key, depth, false), newest(db, key, depth, true)])
  const chosen = rpi !== null && (plain === null || plain.ts - rpi.ts <= rpiTrustMs) ? rpi : plain
  if (chosen === null) return null
  const { ts, receivedAt, bidPrices, bidSizes, bidRpiSizes, askPrices, askSizes, askRpiSizes } = chosen
  return {
    ts,
    receivedAt,
    bids: { prices: bidPrices, sizes: bidSizes, rpiSizes: bidRpiSizes },
    asks: { prices: askPrices, sizes: askSizes, rpiSizes: askRpiSizes },
  }
}

async function newest(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  depth: number,
  withRpi: boolean,
): Promise<StoredBook | null> {
  const rpi = withRpi
    ? sql`bid_rpi_sizes[:${depth}] as "bidRpiSizes", ask_rpi_sizes[:${depth}] as "askRpiSizes"`
    : sql`null as "bidRpiSizes", null as "askRpiSizes"`
  const { rows } = await sql<StoredBook>`
    select ts, received_at as "receivedAt", bid_prices[:${depth}] as "bidPrices", bid_sizes[:${depth}] as "bidSizes",
      ask_prices[:${depth}] as "askPrices", ask_sizes[:${depth}] as "askSizes", ${rpi}
    from ${sql.table(withRpi ? 'market.rpi_order_books' : 'market.order_books')}
    where category = ${category} and symbol = ${symbol}
    order by ts desc limit 1`.execute(db)
  return rows[0] ?? null
}
