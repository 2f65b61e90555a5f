import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey } from '../../market/category.js'
import type { Instrument, InstrumentKind } from '../../market/instrument.js'
import { addMs, dayMs, hourMs, type ServiceMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'
import type { TickerSigns } from '../../market/rows.js'
import { instant } from '../../db/columns.js'
import { ofInstrument } from '../../db/series.js'

interface InstrumentRow {
  readonly category: Category
  readonly symbol: string
  readonly baseCoin: string | null
  readonly quoteCoin: string | null
  readonly status: string | null
  readonly kind: InstrumentKind
  readonly pricePrecision: number | null
  /** When the service stopped listing the instrument; null while it is listed. */
  readonly disappearedAt: ServiceMs | null
}

const coins = ['base_coin as baseCoin', 'quote_coin as quoteCoin'] as const
const columns = ['category', 'symbol', ...coins, 'status', 'kind', 'price_precision as pricePrecision'] as const

/**
 * Finds instruments whose symbol, coins, category or kind together contain every word of `text`, in any case. Listed
 * instruments come first, then matches at the beginning, then those with most turnover. An empty text matches all.
 */
export async function searchInstruments(
  db: Kysely<Database>,
  filter: { readonly text: string; readonly category?: Category | undefined; readonly limit: number },
  now: ServiceMs,
): Promise<InstrumentRow[]> {
  const words = filter.text
    .toUpperCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const [first = ''] = words
  let query = db
    .selectFrom('market.instruments as i')
    .select([...columns, 'disappeared_at as disappearedAt'])
    .where('category', '<>', 'MARGIN')
    .orderBy((eb) => eb('disappeared_at', 'is not', null))
    .orderBy((eb) => eb.not(eb.fn('starts_with', [eb.fn('upper', ['symbol']), eb.val(words.join(''))])))
    .orderBy((eb) => eb.not(eb.fn('starts_with', [eb.fn('upper', ['symbol']), eb.val(first)])))
    .orderBy(comparable, 'desc')
    .orderBy(newestTurnover(now), (order) => order.desc().nullsLast())
    .orderBy(({ fn }) => fn('length', ['symbol']))
    .orderBy('symbol')
    .orderBy('category')
    .limit(filter.limit)
  if (filter.category !== undefined) query = query.where('category', '=', filter.category)
  for (const word of words)
    query = query.where((eb) => {
      const kind = eb.fn('replace', ['kind', eb.val('_'), eb.val(' ')])
      const names = eb.fn('concat_ws', [eb.val(' '), 'symbol', 'base_coin', 'quote_coin', 'category', kind])
      return eb(eb.fn<number>('strpos', [eb.fn('upper', [names]), eb.val(word)]), '>', 0)
    })
  return query.execute()
}

export async function findInstrument(db: Kysely<Database>, key: InstrumentKey): Promise<InstrumentRow | null> {
  const found = await db
    .selectFrom('market.instruments')
    .select([...columns, 'disappeared_at as disappearedAt'])
    .where(ofInstrument(key))
    .executeTakeFirst()
  return found ?? null
}

/**
 * Returns SQL for the turnover on this service by a ticker `t` of an instrument `i`. It follows `turnoverHere` in the
 * vocabulary. It is null for a tokenised stock without turnover here.
 */
export const turnoverHere = sql`case
  when t.platform_turnover_24h > 0 then t.platform_turnover_24h
  when i.kind = 'tokenised_stock' then null
  else t.turnover_24h
end`

/** SQL for true if turnover of an instrument `i` is in the coin of most markets. It is compared in one coin alone. */
const comparable = sql<boolean>`coalesce(i.quote_coin = 'USDT', false)`

/** Returns SQL for the turnover of an instrument `i` by its newest ticker of the last hour; null without one. */
const newestTurnover = (now: ServiceMs) => sql`(
  select ${turnoverHere} from market.tickers t
  where t.category = i.category and t.symbol = i.symbol and t.ts > ${instant(addMs(now, -hourMs))}
  order by t.ts desc limit 1
)`

/**
 * Finds the instrument with candles of the last day that has the highest turnover on this service. The page opens with
 * it.
 */
export async function busiestInstrument(db: Kysely<Database>, now: ServiceMs): Promise<InstrumentKey | null> {
  const { rows } = await sql<InstrumentKey>`
    select i.category, i.symbol
    from market.instruments i
    where i.disappeared_at is null and i.category <> 'MARGIN' and exists (
      select from market.candles c
      where c.category = i.category and c.symbol = i.symbol and c.type = 'market' and c.interval = '1m'
        and c.open_time > ${instant(addMs(now, -dayMs))}
    )
    order by ${comparable} desc, ${newestTurnover(now)} desc nulls last
    limit 1`.execute(db)
  return rows[0] ?? null
}

/** An instrument of the newest list, with the properties that decide whether a stream covers it. */
interface ListedRow extends InstrumentKey {
  readonly status: string | null
  readonly kind: InstrumentKind
}

/** Reads the instruments of these categories from the newest stored lists. */
export async function listedInstruments(db: Kysely<Database>, categories: readonly Category[]): Promise<ListedRow[]> {
  if (categories.length === 0) return []
  return db
    .selectFrom('market.instruments')
    .select(['category', 'symbol', 'status', 'kind'])
    .where('disappeared_at', 'is', null)
    .where('category', 'in', categories)
    .execute()
}

/** Returns the categories of which nobody has recorded a list. A list is recorded as a whole. */
export async function unreadLists<Asked extends Category>(
  db: Kysely<Database>,
  categories: readonly Asked[],
): Promise<Asked[]> {
  const read = await db.selectFrom('market.instruments').select('category').distinct().execute()
  return categories.filter((category) => !read.some((known) => known.category === category))
}

/** Reads when an instrument was listed first, as far as lists were recorded; null if they do not name it. */
export async function firstLaunch(db: Kysely<Database>, key: InstrumentKey): Promise<ServiceMs | null> {
  const { launch } = await db
    .selectFrom('market.instrument_history')
    .select(({ fn }) => fn.min('launch_time').as('launch'))
    .where(ofInstrument(key))
    .executeTakeFirstOrThrow()
  return launch
}

/** Reads the members of the newest stored RPI list. */
export async function listedRpiSymbols(db: Kysely<Database>): Promise<InstrumentKey[]> {
  return db.selectFrom('market.rpi_symbols').select(['category', 'symbol']).where('valid_to', 'is', null).execute()
}

/**
 * Reads from the newest stored ticker of each instrument the values that show its activity. Tickers that are a day older
 * than `now` are ignored.
 */
export async function newestTickerSigns(
  db: Kysely<Database>,
  keys: readonly InstrumentKey[],
  now: ServiceMs,
): Promise<TickerSigns[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<TickerSigns>`
    select k.category, k.symbol, t.*
    from unnest(${keys.map(({ category }) => category)}::market.category[], ${keys.map(({ symbol }) => symbol)}::text[])
      as k (category, symbol)
    cross join lateral (
      select ts, volume_24h as "volume24h", last_price as "lastPrice", bid1_price as "bid1Price", bid1_size as "bid1Size",
        ask1_price as "ask1Price", ask1_size as "ask1Size", turnover_24h as "turnover24h",
        platform_turnover_24h as "platformTurnover24h"
      from market.tickers
      where category = k.category and symbol = k.symbol and ts > ${instant(addMs(now, -dayMs))}
      order by ts desc limit 1
    ) as t`.execute(db)
  return rows
}

interface FillRate extends InstrumentKey {
  /** Number of events per second. */
  readonly perSecond: number
}

/**
 * Number of newest fills that are read of each instrument: enough for a rate, and fast for thousands of instruments.
 */
const sampled = 300
const lookbackMs = 3 * dayMs

/**
 * Estimates how often each instrument traded lately. The rate spans the time from its sampled fills to the newest fill
 * of all. Instruments without fills in the last three days are left out.
 */
export async function recentFillRates(db: Kysely<Database>, now: ServiceMs): Promise<FillRate[]> {
  const since = instant(now - lookbackMs)
  const { rows } = await sql<FillRate>`
    with sample as (
      select i.category, i.symbol, s.count, s.oldest, s.newest
      from market.instruments i
      cross join lateral (
        select count(*) as count, min(ts) as oldest, max(ts) as newest from (
          select ts from market.fills f
          where f.category = i.category and f.symbol = i.symbol and f.ts > ${since}
          order by ts desc limit ${sampled}
        ) as latest
      ) as s
      where i.disappeared_at is null and s.count > 1
    )
    -- Silence since the newest fill lowers a rate; silence of the whole recorder does not.
    select category, symbol,
      (count / greatest(1, extract(epoch from (select max(newest) from sample) - oldest)))::float8 as "perSecond"
    from sample
    order by category, symbol`.execute(db)
  return rows
}

/** Reads how often funding of each instrument is settled, by its specification. */
export async function fundingFrequencies(db: Kysely<Database>): Promise<FillRate[]> {
  const listed = await db
    .selectFrom('market.instruments')
    .select(['category', 'symbol', 'fund_interval'])
    .where('fund_interval', '>', 0)
    .execute()
  return listed.map(({ category, symbol, fund_interval }) => ({
    category,
    symbol,
    perSecond: 1 / ((fund_interval ?? 8) * 3600),
  }))
}

/** Properties of an instrument that the collector needs. */
export type InstrumentSummary = Pick<
  Instrument,
  'category' | 'symbol' | 'status' | 'launchTime' | 'offTime' | 'limitOpenTime' | 'isReality' | 'symbolType'
> & {
  /** Launch time of the first listing. A relisted instrument has a later launch time, but candles from before it. */
  readonly firstLaunchTime?: ServiceMs | null
}

/** Reads the instruments that the service lists, by category and symbol. */
export async function listInstruments(db: Kysely<Database>): Promise<InstrumentSummary[]> {
  return db
    .selectFrom('market.instruments')
    .select(['category', 'symbol', 'status', 'launch_time as launchTime', 'off_time as offTime'])
    .select(['limit_open_time as limitOpenTime', 'is_reality as isReality', 'symbol_type as symbolType'])
    .select((builder) =>
      builder
        .selectFrom('market.instrument_history as h')
        .whereRef('h.category', '=', 'market.instruments.category')
        .whereRef('h.symbol', '=', 'market.instruments.symbol')
        .select(({ fn }) => fn.min('h.launch_time').as('first'))
        .as('firstLaunchTime'),
    )
    .where('disappeared_at', 'is', null)
    .orderBy('category')
    .orderBy('symbol')
    .execute()
}
