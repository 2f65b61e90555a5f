import type { Kysely } from 'kysely'
import type { FundingForecast } from '../market/funding.js'
import { type OrderBook, type RpiOrderBook, type Ticker, tickerFields } from '../market/rows.js'
import type { Database } from '../db/schema.js'
import { appendRows, rowTable, type WriteResult } from '../db/writeRows.js'

const key = ['category', 'symbol', 'ts']
const kinds = {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  bidPrices: 'decimals',
  bidSizes: 'decimals',
  askPrices: 'decimals',
  askSizes: 'decimals',
  receivedAt: 'time',
  extra: 'json',
} as const
const orderBooks = rowTable<OrderBook>('market.order_books', key, kinds)
const rpiOrderBooks = rowTable<RpiOrderBook>('market.rpi_order_books', key, {
  ...kinds,
  bidRpiSizes: 'decimals',
  askRpiSizes: 'decimals',
})

/** Stores snapshots. The first one stored for an instrument and moment stays. */
export async function insertOrderBooks(db: Kysely<Database>, books: readonly OrderBook[]): Promise<WriteResult> {
  return appendRows(db, orderBooks, books)
}

/** Stores snapshots with RPI sizes. The first one stored for an instrument and moment stays. */
export async function insertRpiOrderBooks(db: Kysely<Database>, books: readonly RpiOrderBook[]): Promise<WriteResult> {
  return appendRows(db, rpiOrderBooks, books)
}

const table = rowTable<Ticker>('market.tickers', ['category', 'symbol', 'ts'], {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  ...tickerFields,
  receivedAt: 'time',
  extra: 'json',
})

/** Stores tickers. The first one stored for an instrument and moment stays. */
export async function insertTickers(db: Kysely<Database>, tickers: readonly Ticker[]): Promise<WriteResult> {
  return appendRows(db, table, tickers)
}

const forecasts = rowTable<FundingForecast>('market.funding_forecasts', key, {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  fundingRate: 'decimal',
  intervalHours: 'integer',
  nextUpdate: 'time',
  minRate: 'decimal',
  maxRate: 'decimal',
  receivedAt: 'time',
  extra: 'json',
})

/** Stores funding rates as they form. The first one stored for an instrument and moment stays. */
export async function insertFundingForecasts(
  db: Kysely<Database>,
  rows: readonly FundingForecast[],
): Promise<WriteResult> {
  return appendRows(db, forecasts, rows)
}
