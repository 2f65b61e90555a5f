import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import { addMs, dayMs, type Decimal, hourMs, type MachineMs, minuteMs, type ServiceMs } from '../../market/values.js'
import type { TimeRange } from '../../market/timeRange.js'
import { duration, instant } from '../../db/columns.js'
import { ofInstrument } from '../../db/series.js'
import { turnoverHere } from './instruments.js'

/** An instrument with values of its newest ticker. */
export interface MarketRow {
  readonly category: Category
  readonly symbol: string
  readonly quoteCoin: string | null
  readonly kind: InstrumentKind
  readonly ts: ServiceMs
  readonly lastPrice: Decimal | null
  readonly price24hPcnt: Decimal | null
  /** Turnover of the last 24 hours on this service. A tokenised stock trades mostly elsewhere, so it may be null. */
  readonly turnover: Decimal | null
  readonly spreadBps: Decimal | null
  readonly fundingRate: Decimal | null
  /** Share of the 1m candles of a day that are proven to be stored; null if none are. */
  readonly completeShare: number | null
}

/** Leaves out the newest candles. They need time to close, and quiet instruments need time to trade. */
const proofLagMs = 10 * minuteMs

// Every query of rows has a bound of time as a parameter, not in terms of now(): the clock of the server may be wrong by
// hours. Without a bound the server locks and plans every chunk of the table, which takes a second for a year of them.

/** Reads all listed instruments with a ticker of the last hour. */
export async function readMarket(db: Kysely<Database>, now: ServiceMs): Promise<MarketRow[]> {
  const proofEnd = addMs(now, -proofLagMs)
  const { rows } = await sql<MarketRow>`
    select i.category, i.symbol, i.quote_coin as "quoteCoin", i.kind, t.ts, t.last_price as "lastPrice",
      t.price_24h_pcnt as "price24hPcnt",
      ${turnoverHere} as turnover,
      round(market.spread_bps(t.bid1_price, t.ask1_price), 2) as "spreadBps",
      t.funding_rate as "fundingRate",
      (
        select sum(extract(epoch from upper(r) - lower(r)))::float8 / 86400
        from unnest(c.ranges * tstzmultirange(tstzrange(${instant(addMs(proofEnd, -dayMs))}, ${instant(proofEnd)}))) as r
      ) as "completeShare"
    from market.instruments i
    left join recorder_page.coverage c on c.stream = 'candles' and c.category = i.category and c.symbol = i.symbol
      and c.type = 'market' and c.interval = '1m'
    cross join lateral (
      select * from market.tickers t
      where t.category = i.category and t.symbol = i.symbol and t.ts > ${instant(addMs(now, -hourMs))}
      order by t.ts desc limit 1
    ) t
    where i.disappeared_at is null and i.category <> 'MARGIN'`.execute(db)
  return rows
}

interface PriceCurve extends InstrumentKey {
  /** The price at each quarter of an hour, oldest first; null if neither a candle nor a ticker of it is stored. */
  readonly prices: (Decimal | null)[]
}

/** Reads prices of the last 24 hours, from the candles of minutes where there are some, otherwise from tickers. */
export async function priceCurves(
  db: Kysely<Database>,
  keys: readonly InstrumentKey[],
  now: ServiceMs,
): Promise<PriceCurve[]> {
  const from = instant(addMs(now, -dayMs - 15 * minuteMs))
  const { rows } = await sql<PriceCurve>`
    select k.category, k.symbol, array(
      select coalesce((
        select c.close from market.candles c
        where c.category = k.category and c.symbol = k.symbol and c.type = 'market' and c.interval = '1m'
          and c.open_time < h and c.open_time >= h - interval '15 minutes'
          -- The planner leaves out chunks by these bounds, not by those of the quarter.
          and c.open_time < ${instant(now)} and c.open_time >= ${from}
        order by c.open_time desc limit 1
      ), (
        select t.last_price from market.tickers t
        where t.category = k.category and t.symbol = k.symbol and t.ts <= h and t.ts > h - interval '15 minutes'
          and t.ts <= ${instant(now)} and t.ts > ${from}
        order by t.ts desc limit 1
      )) from generate_series(${instant(addMs(now, -dayMs))}, ${instant(now)}, interval '15 minutes') as h order by h
    ) as prices
    from unnest(${keys.map(({ category }) => category)}::market.category[], ${keys.map(({ symbol }) => symbol)}::text[])
      as k (category, symbol)`.execute(db)
  return rows
}

interface NewestFill {
  readonly ts: ServiceMs
  readonly execId: string
  readonly side: 'buy' | 'sell'
  readonly price: Decimal
  readonly size: Decimal
}

/** Reads the newest fills of a range of time, newest first. */
export async function newestFills(
  db: Kysely<Database>,
  key: InstrumentKey,
  range: TimeRange,
  limit: number,
): Promise<NewestFill[]> {
  return db
    .selectFrom('market.fills')
    .select(['ts', 'exec_id as execId', 'side', 'price', 'size'])
    .where(ofInstrument(key))
    .where('ts', '>=', instant(range.from))
    .where('ts', '<', instant(range.to))
    .orderBy('ts', 'desc')
    .orderBy('exec_id', 'desc')
    .limit(limit)
    .execute()
}

interface TickerRow {
  readonly ts: ServiceMs
  readonly receivedAt: MachineMs
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
  /** Beginning of the span. */
  readonly time: ServiceMs
  /** The newest funding rate in the span, as a fraction. */
  readonly fundingRate: Decimal | null
  /** Mean of (best ask − best bid) / middle over the span, in basis points with four decimal places. */
  readonly spreadBps: Decimal | null
  readonly maxSpreadBps: Decimal | null
}

/** Reads the newest ticker of a range of time. */
export async function latestTicker(
  db: Kysely<Database>,
  key: InstrumentKey,
  range: TimeRange,
): Promise<TickerRow | null> {
  const newest = await db
    .selectFrom('market.tickers')
    .select(['ts', 'received_at as receivedAt', 'last_price as lastPrice', 'bid1_price as bid1Price'])
    .select(['ask1_price as ask1Price', 'price_24h_pcnt as price24hPcnt', 'volume_24h as volume24h'])
    .select(['turnover_24h as turnover24h', 'platform_turnover_24h as platformTurnover24h'])
    .select(['mark_price as markPrice', 'index_price as indexPrice', 'funding_rate as fundingRate'])
    .select('open_interest as openInterest')
    .where(ofInstrument(key))
    .where('ts', '>=', instant(range.from))
    .where('ts', '<', instant(range.to))
    .orderBy('ts', 'desc')
    .limit(1)
    .executeTakeFirst()
  return newest ?? null
}

/** Reads funding rate and spread over time, ascending. Each `stepMs` with tickers gives one point. */
export async function tickerHistory(
  db: Kysely<Database>,
  key: InstrumentKey,
  range: TimeRange,
  stepMs: number,
): Promise<TickerPoint[]> {
  const { rows } = await sql<TickerPoint>`
    select date_bin(${duration(stepMs)}, ts, timestamptz 'epoch') as time,
      (array_agg(funding_rate order by ts desc))[1] as "fundingRate",
      round(avg(bps), 4) as "spreadBps", round(max(bps), 4) as "maxSpreadBps"
    from (
      select ts, funding_rate, market.spread_bps(bid1_price, ask1_price) as bps from market.tickers
      where ${ofInstrument(key)} and ts >= ${instant(range.from)} and ts < ${instant(range.to)}
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
  readonly ts: ServiceMs
  readonly receivedAt: MachineMs
  readonly bids: BookSide
  readonly asks: BookSide
}

/** A book without RPI sizes must be this much newer to be preferred to one with them. */
const rpiTrustMs = 60_000

/** Reads the newest snapshot of a range of time, cut to `depth` levels a side. It prefers a book with RPI sizes. */
export async function latestBook(
  db: Kysely<Database>,
  key: InstrumentKey,
  { from, to }: TimeRange,
  depth: number,
): Promise<BookRow | null> {
  const columns = ['ts', 'received_at', 'bid_prices', 'bid_sizes', 'ask_prices', 'ask_sizes'] as const
  const [plain, rpi] = await Promise.all([
    db
      .selectFrom('market.order_books')
      .select(columns)
      .select((eb) => [eb.lit(null).as('bid_rpi_sizes'), eb.lit(null).as('ask_rpi_sizes')])
      .where(ofInstrument(key))
      .where('ts', '>=', instant(from))
      .where('ts', '<', instant(to))
      .orderBy('ts', 'desc')
      .limit(1)
      .executeTakeFirst(),
    db
      .selectFrom('market.rpi_order_books')
      .select([...columns, 'bid_rpi_sizes', 'ask_rpi_sizes'])
      .where(ofInstrument(key))
      .where('ts', '>=', instant(from))
      .where('ts', '<', instant(to))
      .orderBy('ts', 'desc')
      .limit(1)
      .executeTakeFirst(),
  ])
  const book = rpi !== undefined && (plain === undefined || plain.ts - rpi.ts <= rpiTrustMs) ? rpi : plain
  if (book === undefined) return null
  const side = (prices: Decimal[], sizes: Decimal[], rpiSizes: Decimal[] | null): BookSide => ({
    prices: prices.slice(0, depth),
    sizes: sizes.slice(0, depth),
    rpiSizes: rpiSizes?.slice(0, depth) ?? null,
  })
  return {
    ts: book.ts,
    receivedAt: book.received_at,
    bids: side(book.bid_prices, book.bid_sizes, book.bid_rpi_sizes),
    asks: side(book.ask_prices, book.ask_sizes, book.ask_rpi_sizes),
  }
}
