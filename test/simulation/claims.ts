import type pg from 'pg'
import type { TradedCategory } from '../../src/market/category.js'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { Service } from '../../src/simulator/service.js'
import { trimmed } from '../support/servedTruth.js'

const minuteMs = 60_000

interface Claim extends TimeRange {
  readonly stream: 'fills' | 'candles'
  readonly category: TradedCategory
  readonly symbol: string
}

interface StoredCandle {
  readonly key: string
  readonly isClosed: boolean
  readonly values: readonly string[]
}

const ms = (bound: string) => `(extract(epoch from ${bound}) * 1000)::float8`

/**
 * What is proven of fills and of candles of a minute within a range is stored, and as the market was: one line for each that is
 * not. Asked while time stands still.
 */
export async function falseClaims(pool: pg.Pool, { world }: Service, { from, to }: TimeRange): Promise<string[]> {
  const within = [new Date(from), new Date(to)]
  const { rows: claims } = await pool.query<Claim>(
    `select stream, category, symbol, ${ms('lower(r)')} as "from", ${ms('upper(r)')} as "to"
     from recorder.coverage, unnest(ranges * tstzmultirange(tstzrange($1, $2))) as r
     where stream = 'fills' or stream = 'candles' and type = 'market' and interval = '1m'`,
    within,
  )
  const { rows: fills } = await pool.query<{ key: string }>(
    `select category || ' ' || symbol || ' ' || exec_id as key from market.fills where ts >= $1 and ts < $2`,
    within,
  )
  const { rows: candles } = await pool.query<StoredCandle>(
    `select category || ' ' || symbol || ' ' || ${ms('open_time')} as key, is_closed as "isClosed",
       array[open, high, low, close, base_volume, quote_turnover]::text[] as values
     from market.candles where type = 'market' and interval = '1m' and open_time >= $1 and open_time < $2`,
    within,
  )
  const storedFills = new Set(fills.map(({ key }) => key))
  const storedCandles = new Map(candles.map((candle) => [candle.key, candle]))
  const wrong: string[] = []
  for (const claim of claims) {
    const { stream, category, symbol } = claim
    const what = `${category} ${symbol}`
    if (stream === 'fills') {
      for (const { execId, ts } of world.fills(category, symbol, claim.from, claim.to))
        if (!storedFills.has(`${what} ${execId}`))
          wrong.push(`${what}: a fill at ${new Date(Number(ts)).toISOString()} is missing in a proven stretch`)
      continue
    }
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

/** Candles of a minute between the first proven one of a series and `until` that are not proven: one line for each stretch. */
export async function missingCandles(pool: pg.Pool, { world }: Service, until: number): Promise<string[]> {
  const { rows } = await pool.query<Omit<Claim, 'stream'>>(
    `select category, symbol, ${ms('lower(r)')} as "from", ${ms('upper(r)')} as "to"
     from recorder.coverage, unnest(tstzmultirange(tstzrange(lower(ranges), greatest(lower(ranges), $1))) - ranges) as r
     where stream = 'candles' and type = 'market' and interval = '1m' and not isempty(ranges)`,
    [new Date(until)],
  )
  return rows
    .filter(({ category, symbol, from, to }) => {
      const series = { category, symbol, type: 'market', interval: '1m' } as const
      return world.candles(series, from, to, to + minuteMs).length > 0
    })
    .map(({ category, symbol, from, to }) => {
      const stretch = `${new Date(from).toISOString()} to ${new Date(to).toISOString()}`
      return `${category} ${symbol}: the candles from ${stretch} are still missing`
    })
}
