import { type Kysely, sql } from 'kysely'
import { commentOn, completeness, key, wholeSum } from './relations.js'

const rollups = {
  ohlcv_5m: '5 minutes',
  ohlcv_15m: '15 minutes',
  ohlcv_1h: '1 hour',
  ohlcv_4h: '4 hours',
  ohlcv_1d: '24 hours',
} as const

/** Views for analysts: candles of other widths, made of closed 1m market candles. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [name, length] of Object.entries(rollups)) {
    const bucket = sql`date_bin(${sql.lit(length)}::interval, open_time, timestamptz 'epoch')`
    await sql`
      create view ${sql.table(`market.${name}`)} as
        select r.*, ${sql.raw(completeness(length))}
        from (
          select category, symbol, ${bucket} as open_time,
            (array_agg(open order by open_time))[1] as open,
            max(high) as high,
            min(low) as low,
            (array_agg(close order by open_time desc))[1] as close,
            ${sql.raw(wholeSum('base_volume'))} as base_volume,
            ${sql.raw(wholeSum('quote_turnover'))} as quote_turnover,
            count(*) as minutes
          from market.candles
          where type = 'market' and interval = '1m' and is_closed
          group by category, symbol, ${bucket}
        ) r`.execute(db)
    await commentOn(db, 'view', {
      [`market.${name}`]: `
        -- Candles of ${length}, rolled up from closed 1m market candles; aligned to 00:00 UTC. A bound on open_time
        -- does not keep the view from reading all of an instrument's past, unless the server keeps rollups
        -- (TimescaleDB Community). There, what is stored or revised late is in the view within three hours. For a range,
        -- use market.ohlcv(category, symbol, '${length}', from, to), which reads the minutes.
        ${key}
        open_time -- When it opens (inclusive), UTC-aligned.
        open -- First price, in quote coin.
        high -- Highest price, in quote coin.
        low -- Lowest price, in quote coin.
        close -- Last price, in quote coin.
        base_volume -- Volume, in base coin; NULL where that of a minute is unknown.
        quote_turnover -- Turnover, in quote coin; NULL where that of a minute is unknown.
        minutes -- Number of closed 1m candles in it.
        expected_minutes -- Minutes of its length.
        is_complete -- True if each minute is recorded, or proven to be without trade.`,
    })
  }
}
