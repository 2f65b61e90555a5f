import type pg from 'pg'
import type { TradedCategory } from '../../src/market/category.js'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { Service } from '../../src/simulator/service.js'
import { maxCandleWaitMs } from '../../src/collect/schedule/candleSchedule.js'
import { trimmed } from '../support/servedTruth.js'

const minuteMs = 60_000

interface Claim extends TimeRange {
  readonly category: TradedCategory
  readonly symbol: string
}

interface StoredCandle {
  readonly key: string
  readonly isClosed: boolean
  readonly values: readonly string[]
}

const ms = (bound: string) => `(extract(epoch from ${bound}) * 1000)::float8`

interface StoredFill {
  readonly key: string
}

const isFillsClaim = `stream = 'fills'`
const isCandlesClaim = `stream = 'candles' and type = 'market' and interval = '1m'`

function selectClaims(condition: string): string {
  return `select category, symbol, ${ms('lower(r)')} as "from", ${ms('upper(r)')} as "to"
     from recorder_page.coverage, unnest(ranges * tstzmultirange(tstzrange($1, $2))) as r where ${condition}`
}

/**
 * Compares proven fills and minute candles of a range with the market. Returns one line for each that is not stored, or
 * not as the market was. Call it while time stands still.
 */
export async function falseClaims(pool: pg.Pool, service: Service, range: TimeRange): Promise<string[]> {
  return [...(await falseFillClaims(pool, service, range)), ...(await falseCandleClaims(pool, service, range))]
}

/** Compares proven fills of a range with the market. */
export async function falseFillClaims(
  pool: pg.Pool,
  { world }: Pick<Service, 'world'>,
  { from, to }: TimeRange,
): Promise<string[]> {
  const within = [new Date(from), new Date(to)]
  const { rows: claims } = await pool.query<Claim>(selectClaims(isFillsClaim), within)
  if (claims.length === 0) return []
  const { rows: fills } = await pool.query<StoredFill>(
    `select category || ' ' || symbol || ' ' || exec_id as key from market.fills where ts >= $1 and ts < $2`,
    within,
  )
  const stored = new Set(fills.map(({ key }) => key))
  return claims.flatMap(({ category, symbol, ...claim }) => {
    const what = `${category} ${symbol}`
    // Responses may give a fill with an earlier time, within its minute.
    const missing = world
      .fills(category, symbol, claim.from, claim.to + minuteMs)
      .filter(({ execId, ts }) => isIn(Number(ts), claim) && !stored.has(`${what} ${execId}`))
    return missing.map(
      ({ ts }) => `${what}: a fill at ${new Date(Number(ts)).toISOString()} is missing in a proven stretch`,
    )
  })
}

const isIn = (ts: number, { from, to }: TimeRange) => ts >= from && ts < to

async function falseCandleClaims(pool: pg.Pool, { world }: Service, { from, to }: TimeRange): Promise<string[]> {
  const within = [new Date(from), new Date(to)]
  const { rows: claims } = await pool.query<Claim>(selectClaims(isCandlesClaim), within)
  const { rows: candles } = await pool.query<StoredCandle>(
    `select category || ' ' || symbol || ' ' || ${ms('open_time')} as key, is_closed as "isClosed",
       array[open, high, low, close, base_volume, quote_turnover]::text[] as values
     from market.candles where type = 'market' and interval = '1m' and open_time >= $1 and open_time < $2`,
    within,
  )
  const storedCandles = new Map(candles.map((candle) => [candle.key, candle]))
  const wrong: string[] = []
  for (const { category, symbol, ...claim } of claims) {
    const what = `${category} ${symbol}`
    const series = { category, symbol, type: 'market', interval: '1m' } as const
    for (const [openTime, ...values] of world.candles(series, claim.from, claim.to, claim.to + minuteMs)) {
      const stored = storedCandles.get(`${what} ${openTime}`)
      const at = new Date(Number(openTime)).toISOString()
      if (stored === undefined) wrong.push(`${what}: the candle of ${at} is missing in a proven stretch`)
      else if (!stored.isClosed) wrong.push(`${what}: the candle of ${at} is proven and not final`)
      else if (stored.values.some((value, place) => trimmed(value) !== trimmed(values[place] ?? null)))
        wrong.push(`${what}: the proven candle of ${at} is ${stored.values.join(' ')}, and was ${values.join(' ')}`)
    }
  }
  return wrong
}

/** Closed candles that were stored differently before. The service never changes a final candle. */
export async function revisions(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ readonly category: string; readonly symbol: string; readonly at: Date }>(
    'select category, symbol, open_time as at from recorder.candle_revision order by 1, 2, 3',
  )
  return rows.map(
    ({ category, symbol, at }) =>
      `${category} ${symbol}: the candle of ${at.toISOString()} was taken for final too soon`,
  )
}

/**
 * Finds minute candles between the first proven one of a series and `until` that are not proven. Returns one line for
 * each stretch. A series without trades is asked for every eight minutes: its newest candles may not be due yet.
 */
export async function missingCandles(pool: pg.Pool, { world }: Service, until: number): Promise<string[]> {
  const { rows } = await pool.query<Claim>(
    `select category, symbol, ${ms('lower(r)')} as "from", ${ms('upper(r)')} as "to"
     from recorder_page.coverage, unnest(tstzmultirange(tstzrange(lower(ranges), greatest(lower(ranges), $1))) - ranges) as r
     where stream = 'candles' and type = 'market' and interval = '1m' and not isempty(ranges)`,
    [new Date(until)],
  )
  return rows
    .filter(({ category, symbol, from, to }) => {
      const series = { category, symbol, type: 'market', interval: '1m' } as const
      const candles = world.candles(series, from, to, to + minuteMs)
      const isNewest = to === until && until - from <= maxCandleWaitMs
      return isNewest ? candles.some((candle) => Number(candle[5]) > 0) : candles.length > 0
    })
    .map(({ category, symbol, from, to }) => {
      const stretch = `${new Date(from).toISOString()} to ${new Date(to).toISOString()}`
      return `${category} ${symbol}: the candles from ${stretch} are still missing`
    })
}
