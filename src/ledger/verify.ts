import { type Kysely, sql } from 'kysely'
import { type CandleSeries, intervalMs } from '../market/candle.js'
import { type InstrumentKey, instrumentText } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import { type ServiceMs, serviceMs } from '../market/values.js'
import { candleStream, instrumentStream, ofCandles, ofSeries } from '../db/series.js'
import { duration, instant, wholeSumOf } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { knownOf } from './verdicts.js'

export interface Disagreement {
  readonly series: CandleSeries
  readonly range: TimeRange
  /** Number of candles that disagree. */
  readonly count: number
  readonly detail: string
}

/** Rows of an instrument that are odd, and may be true: they are stored as they came. */
interface OddRows extends InstrumentKey {
  readonly count: number
}

interface Verified {
  readonly check: string
  /** Number of series that were checked, or of instruments. */
  readonly series: number
  readonly disagreements: readonly Disagreement[]
  readonly oddRows?: readonly OddRows[]
}

interface Check {
  readonly name: string
  readonly concerns: (series: CandleSeries) => boolean
  readonly run: (db: Kysely<Database>, series: CandleSeries, keptSince: ServiceMs) => Promise<Disagreement[]>
}

const checks: readonly Check[] = [
  { name: 'what is covered is stored', concerns: () => true, run: coveredWithoutRows },
  { name: 'what is stored is covered', concerns: () => true, run: rowsWithoutCoverage },
  { name: 'where nothing was traded nothing is stored', concerns: () => true, run: rowsWithoutTrade },
  {
    name: 'where nothing was traded there are no fills',
    concerns: ({ type }) => type === 'market',
    run: fillsWithoutTrade,
  },
  {
    name: 'where nothing was traded no minute has a volume',
    concerns: ({ interval, type }) => interval !== '1m' && type === 'market',
    run: minutesWithoutTrade,
  },
  {
    name: "hours and days of the service agree with the service's minutes",
    concerns: ({ interval }) => interval === '1H' || interval === '1D',
    run: rollupsThatDiffer,
  },
  {
    name: 'volumes of minutes agree with the fills',
    concerns: ({ interval, type }) => interval === '1m' && type === 'market',
    run: volumesThatDiffer,
  },
]

const crossed = sql<boolean>`bid_prices[1] >= ask_prices[1]`
const oddities = [
  { check: 'order books that are crossed', table: 'market.order_books', isOdd: crossed },
  { check: 'RPI order books that are crossed', table: 'market.rpi_order_books', isOdd: crossed },
  { check: 'fills at a price of 0', table: 'market.fills', isOdd: sql<boolean>`price = 0` },
  { check: 'candles with a price of 0', table: 'market.candles', isOdd: sql<boolean>`low = 0` },
  { check: 'tickers with a last price of 0', table: 'market.tickers', isOdd: sql<boolean>`last_price = 0` },
] as const

/**
 * Compares stored rows with the claims about them, and candles with fills and with shorter candles. Counts odd rows.
 *
 * @param keptSince nothing is claimed before this time, because older candles may be removed. Default: all are kept.
 */
export async function* verify(
  db: Kysely<Database>,
  isWanted: (series: Pick<CandleSeries, 'symbol'>) => boolean,
  keptSince = serviceMs(0),
): AsyncGenerator<Verified> {
  const all = (await candleSeries(db)).filter(isWanted)
  for (const { name, concerns, run } of checks) {
    const concerned = all.filter(concerns)
    const disagreements: Disagreement[] = []
    for (const series of concerned) for (const found of await run(db, series, keptSince)) disagreements.push(found)
    yield { check: name, series: concerned.length, disagreements }
  }
  const listed = await db.selectFrom('market.instruments').select(['category', 'symbol']).execute()
  const known = [...all, ...listed.filter(isWanted)].map((key) => [instrumentText(key), key] as const)
  const instruments = [...new Map<string, InstrumentKey>(known).values()]
  for (const { check, table, isOdd } of oddities) {
    const oddRows: OddRows[] = []
    for (const { category, symbol } of instruments) {
      const ofInstrument = sql`category = ${category} and symbol = ${symbol}`
      const { rows } = await sql<{ count: number }>`
        select count(*) from ${sql.table(table)} where ${ofInstrument} and ${isOdd} having count(*) > 0`.execute(db)
      for (const { count } of rows) oddRows.push({ category, symbol, count })
    }
    yield { check, series: instruments.length, disagreements: [], oddRows }
  }
}

interface Found extends TimeRange {
  readonly count: number
  readonly detail?: string | null
}

/** Lists all series of candles that are covered or stored. */
async function candleSeries(db: Kysely<Database>): Promise<CandleSeries[]> {
  const covered = db
    .selectFrom('recorder.ledger')
    .select(['category', 'symbol', 'type', 'interval'])
    .where('stream', '=', 'candles')
    .where('verdict', '=', 'recorded')
    .$castTo<CandleSeries>()
  const stored = db
    .selectFrom('market.candles')
    .distinct()
    .select((eb) => [
      'category',
      'symbol',
      eb.cast('type', 'text').as('type'),
      eb.cast('interval', 'text').as('interval'),
    ])
    .where('is_closed', '=', true)
    .$castTo<CandleSeries>()
  return db
    .selectFrom(covered.union(stored).as('known'))
    .selectAll()
    .orderBy('category')
    .orderBy('symbol')
    .orderBy('type')
    .orderBy(sql`interval::market.candle_interval`)
    .execute()
}

/**
 * Finds covered time that no candle fills and that is not known to be silent. Candles are not counted: where the hour
 * changed at which days open, they overlap.
 */
async function coveredWithoutRows(db: Kysely<Database>, series: CandleSeries): Promise<Disagreement[]> {
  const { rows } = await sql<Found>`
    select lower(r) as "from", upper(r) as "to",
      ceil(extract(epoch from upper(r) - lower(r)) / extract(epoch from ${lengthOf(series)}))::bigint as count
    from recorder.ledger c
    cross join lateral unnest(c.ranges - coalesce((
      select range_agg(silent) from recorder.ledger n cross join lateral unnest(n.ranges) as silent
      where ${ofSeries(candleStream(series), 'n')} and n.verdict in ('silent', 'no trade')), '{}') - coalesce((
      select range_agg(tstzrange(s.open_time, s.open_time + ${lengthOf(series)})) from market.candles s
      where ${ofCandles(series, 's')} and s.is_closed), '{}')) as r
    where ${knownOf(candleStream(series), 'recorded', 'c')}
    order by 1`.execute(db)
  return disagreements(series, rows, 'covered, but not stored')
}

/**
 * Finds closed candles that no coverage includes, of the database or of an archive that was adopted.
 *
 * @param keptSince older candles are past retention, and stay only until their chunk is dropped
 */
async function rowsWithoutCoverage(
  db: Kysely<Database>,
  series: CandleSeries,
  keptSince: ServiceMs,
): Promise<Disagreement[]> {
  const { rows } = await sql<Found>`
    select min(open_time) as "from", max(open_time + length) as "to", count(*) as count
    from market.candles c cross join ${lengthOf(series)} as length
    where ${ofCandles(series, 'c')} and is_closed and open_time >= ${instant(keptSince)}
      and not coalesce((select range_agg(r) from recorder.ledger v cross join lateral unnest(v.ranges) as r
        where ${ofSeries(candleStream(series), 'v')} and v.verdict in ('recorded', 'final')), '{}')
        @> tstzrange(open_time, open_time + length)
    having count(*) > 0`.execute(db)
  return disagreements(series, rows, 'stored, but not covered')
}

/** Finds closed candles in stretches that are recorded as without trades. */
async function rowsWithoutTrade(db: Kysely<Database>, series: CandleSeries): Promise<Disagreement[]> {
  const { rows } = await sql<Found>`
    select c.open_time as "from", c.open_time + length as "to", 1 as count
    from recorder.ledger n
    cross join lateral unnest(n.ranges) as silent
    cross join ${lengthOf(series)} as length
    join market.candles c on ${ofCandles(series, 'c')} and c.open_time >= lower(silent) and c.open_time < upper(silent)
    where ${ofSeries(candleStream(series), 'n')} and n.verdict in ('silent', 'no trade') and c.is_closed
    order by 1`.execute(db)
  return disagreements(series, rows, 'stored, but claimed to have no trade')
}

/** Finds candles of a longer interval that differ from the sum of their covered 1m candles. */
async function rollupsThatDiffer(db: Kysely<Database>, long: CandleSeries): Promise<Disagreement[]> {
  const minutes: CandleSeries = { ...long, interval: '1m' }
  const { rows } = await sql<Found>`
    with minutes as (
      select ranges from recorder.ledger c where ${knownOf(candleStream(minutes), 'recorded', 'c')}
    ), compared as (
      select l.open_time, l.open_time + length as close_time, l.open, l.high, l.low, l.close, l.base_volume, l.quote_turnover, m.*
      from market.candles l
      cross join ${lengthOf(long)} as length
      cross join lateral (
        select (array_agg(c.open order by c.open_time))[1] as m_open, max(c.high) as m_high, min(c.low) as m_low,
          (array_agg(c.close order by c.open_time desc))[1] as m_close, ${wholeSumOf('base_volume', 'c')} as m_volume,
          ${wholeSumOf('quote_turnover', 'c')} as m_turnover
        from market.candles c
        where ${ofCandles(minutes, 'c')} and c.is_closed and c.open_time >= l.open_time and c.open_time < l.open_time + length
      ) as m
      where ${ofCandles(long, 'l')} and l.is_closed
        and (select ranges from minutes) @> tstzrange(l.open_time, l.open_time + length)
    )
    select open_time as "from", close_time as "to", 1 as count,
      concat_ws(', ',
        case when open <> m_open then format('open %s, of minutes %s', open, m_open) end,
        case when high <> m_high then format('high %s, of minutes %s', high, m_high) end,
        case when low <> m_low then format('low %s, of minutes %s', low, m_low) end,
        case when close <> m_close then format('close %s, of minutes %s', close, m_close) end,
        case when base_volume <> m_volume then format('volume %s, of minutes %s', base_volume, m_volume) end,
        case when quote_turnover <> m_turnover then format('turnover %s, of minutes %s', quote_turnover, m_turnover) end
      ) as detail
    from compared
    where (open, high, low, close) is distinct from (m_open, m_high, m_low, m_close)
      -- An unknown volume agrees with any, because the service does not always give volumes: of hours, or of minutes.
      or base_volume <> m_volume or quote_turnover <> m_turnover
    order by 1`.execute(db)
  return disagreements(long, rows, 'does not agree with its minutes')
}

/** Finds closed 1m candles whose volume differs from the sum of their fills. Only minutes with complete fills count. */
async function volumesThatDiffer(db: Kysely<Database>, minutes: CandleSeries): Promise<Disagreement[]> {
  const { category, symbol } = minutes
  const { rows } = await sql<Found>`
    with recorded as (
      select range_agg(r) as ranges from recorder.ledger v cross join lateral unnest(v.ranges) as r
      where ${knownOf(instrumentStream('fills', minutes), 'recorded', 'v')}
    )
    select minute as "from", minute + interval '1 minute' as "to", 1 as count,
      format('volume %s, of fills %s', volume, size) as detail
    from recorded cross join lateral unnest(recorded.ranges) as r
    cross join lateral recorder.fill_minutes(${category}, ${symbol}, date_trunc('minute', lower(r), 'UTC'), upper(r))
    where r @> tstzrange(minute, minute + interval '1 minute') and volume <> size
    order by 1`.execute(db)
  return disagreements(minutes, rows, 'does not agree with its fills')
}

/** Finds fills in stretches that are recorded as without trades. */
async function fillsWithoutTrade(db: Kysely<Database>, series: CandleSeries): Promise<Disagreement[]> {
  const { category, symbol } = series
  const { rows } = await sql<Found>`
    select lower(silent) as "from", upper(silent) as "to", count(*) as count
    from recorder.ledger n
    cross join lateral unnest(n.ranges) as silent
    join market.fills f on f.category = ${category} and f.symbol = ${symbol} and f.ts >= lower(silent) and f.ts < upper(silent)
    where ${ofSeries(candleStream(series), 'n')} and n.verdict in ('silent', 'no trade')
    group by silent
    order by 1`.execute(db)
  return disagreements(series, rows, 'fills are stored, but claimed is no trade')
}

/** Finds closed 1m candles with a volume in stretches that a longer interval records as without trades. */
async function minutesWithoutTrade(db: Kysely<Database>, long: CandleSeries): Promise<Disagreement[]> {
  const minutes: CandleSeries = { ...long, interval: '1m' }
  const { rows } = await sql<Found>`
    select lower(silent) as "from", upper(silent) as "to", count(*) as count
    from recorder.ledger n
    cross join lateral unnest(n.ranges) as silent
    join market.candles c on ${ofCandles(minutes, 'c')} and c.open_time >= lower(silent) and c.open_time < upper(silent)
    where ${ofSeries(candleStream(long), 'n')} and n.verdict in ('silent', 'no trade') and c.is_closed and c.base_volume > 0
    group by silent
    order by 1`.execute(db)
  return disagreements(long, rows, 'minutes with a volume are stored, but claimed is no trade')
}

function lengthOf({ interval }: CandleSeries) {
  return duration(intervalMs[interval])
}

function disagreements(series: CandleSeries, rows: readonly Found[], what: string): Disagreement[] {
  return rows.map(({ from, to, count, detail }) => ({
    series,
    range: { from, to },
    count,
    detail: detail === null || detail === undefined ? what : `${what}: ${detail}`,
  }))
}
