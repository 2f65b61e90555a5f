import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import type { TickerSigns } from '../../market/ticker.js'
import type { Database } from '../../db/schema.js'

/** An instrument as the newest list has it, as far as covering it depends on it. */
export interface ListedRow extends InstrumentKey {
  readonly status: string | null
  readonly kind: InstrumentKind
}

/** The instruments that the newest stored lists of these categories hold. */
export async function listedInstruments(db: Kysely<Database>, categories: readonly Category[]): Promise<ListedRow[]> {
  const { rows } = await sql<ListedRow>`
    select category, symbol, status, kind from market.instruments
    where disappeared_at is null and category = any(${categories}::market.category[])`.execute(db)
  return rows
}

/** The members of the newest stored RPI list. */
export async function listedRpiSymbols(db: Kysely<Database>): Promise<InstrumentKey[]> {
  const { rows } = await sql<InstrumentKey>`
    select category, symbol from market.rpi_symbols where valid_to is null`.execute(db)
  return rows
}

/**
 * Reads from the newest stored ticker of each instrument the values that show its activity. Tickers older than a day
 * are ignored.
 */
export async function newestTickerSigns(db: Kysely<Database>, keys: readonly InstrumentKey[]): Promise<TickerSigns[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<TickerSigns>`
    select k.category, k.symbol, t.*
    from unnest(${keys.map(({ category }) => category)}::market.category[], ${keys.map(({ symbol }) => symbol)}::text[])
      as k (category, symbol)
    cross join lateral (
      select ts, received_at as "receivedAt", volume_24h as "volume24h", last_price as "lastPrice", bid1_price as "bid1Price", bid1_size as "bid1Size",
        ask1_price as "ask1Price", ask1_size as "ask1Size", turnover_24h as "turnover24h",
        platform_turnover_24h as "platformTurnover24h"
      from market.tickers
      where category = k.category and symbol = k.symbol and ts > now() - interval '1 day'
      order by ts desc limit 1
    ) as t`.execute(db)
  return rows
}
