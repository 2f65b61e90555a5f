import { sql } from 'kysely'
import { intervalMs } from '../market/candle.js'

/** Lengths as SQL intervals, for statements that are about candles of different intervals. */
export const candleLengths = sql`(values ${sql.join(
  Object.entries(intervalMs).map(
    ([interval, ms]) => sql`(${sql.lit(interval)}, make_interval(secs => ${sql.lit(ms / 1000)}))`,
  ),
)}) as lengths (interval, length)`
