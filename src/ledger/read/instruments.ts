import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import type { TimeMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'

export interface InstrumentRow {
  readonly category: Category
  readonly symbol: string
  readonly baseCoin: string | null
  readonly quoteCoin: string | null
  readonly status: string | null
  readonly kind: InstrumentKind
  readonly pricePrecision: number | null
  /** When the service had stopped listing it; null while it does. */
  readonly disappearedAt: TimeMs | null
}

const columns = sql`category, symbol, base_coin as "baseCoin", quote_coin as "quoteCoin", status, kind,
  price_precision as "pricePrecision", disappeared_at as "disappearedAt"`

/**
 * Instruments of which symbol, coins, category or kind contain every word of `text`, whatever its case: "btc usdt" and "futures"
 * find what a person means. Those that begin with it come first, and of those the shorter. An empty text finds all.
 */
export async function searchInstruments(
  db: Kysely<Database>,
  filter: { readonly text: string; readonly category?: Category | undefined; readonly limit: number },
): Promise<InstrumentRow[]> {
  const words = filter.text
    .toUpperCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const [first = ''] = words
  const inCategory = filter.category === undefined ? sql`true` : sql`category = ${filter.category}`
  const { rows } = await sql<InstrumentRow>`
    select ${columns} from market.instruments
    where ${inCategory} and category <> 'MARGIN'
      and not exists (
        select from unnest(${words}::text[]) as word
        where strpos(upper(concat_ws(' ', symbol, base_coin, quote_coin, category, replace(kind::text, '_', ' '))), word) = 0
      )
    order by disappeared_at is not null, not starts_with(upper(symbol), ${words.join('')}),
      not starts_with(upper(symbol), ${first}), length(symbol), symbol, category
    limit ${filter.limit}`.execute(db)
  return rows
}

export async function findInstrument(db: Kysely<Database>, key: InstrumentKey): Promise<InstrumentRow | null> {
  const { rows } = await sql<InstrumentRow>`
    select ${columns} from market.instruments
    where category = ${key.category} and symbol = ${key.symbol}`.execute(db)
  return rows[0] ?? null
}

/** The instrument with the highest turnover here of those with candles: what a visitor sees who asks for none. */
export async function busiestInstrument(db: Kysely<Database>): Promise<InstrumentKey | null> {
  const { rows } = await sql<InstrumentKey>`
    select i.category, i.symbol
    from market.instruments i
    cross join lateral (
      select case
        when platform_turnover_24h > 0 then platform_turnover_24h
        when i.kind = 'tokenised_stock' then 0
        else turnover_24h
      end as turnover from market.tickers t
      where t.category = i.category and t.symbol = i.symbol and t.ts > now() - interval '1 hour'
      order by ts desc limit 1
    ) t
    where i.disappeared_at is null and i.category <> 'MARGIN' and exists (
      select from market.candles c
      where c.category = i.category and c.symbol = i.symbol and c.type = 'market' and c.interval = '1m'
    )
    -- Only like compares with like: turnover in another coin says nothing.
    order by (i.quote_coin in ('USDT', 'USDC', 'USD')) desc, t.turnover desc nulls last
    limit 1`.execute(db)
  return rows[0] ?? null
}
