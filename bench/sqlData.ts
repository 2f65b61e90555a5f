import type pg from 'pg'

export const instrumentCount = 20
const firstDay = '2026-01-01 00:00Z'
export const tickerDay = '2026-06-01 00:00Z'

/**
 * Closed 1m candles of a random walk, as noisy as real ones: ticks of 0.01, volumes of four decimals and turnovers of six, none
 * of which repeat. The same on every run.
 */
export async function loadCandles(pool: pg.Pool, rows: number): Promise<void> {
  const minutes = Math.ceil(rows / instrumentCount)
  for (let i = 0; i < instrumentCount; i++) {
    const client = await pool.connect()
    try {
      await client.query('set synchronous_commit = off')
      await client.query(`select setseed(${i / instrumentCount})`)
      await client.query(`
        insert into market.candles
        select 'USDT-FUTURES', 'BENCH${String(i).padStart(2, '0')}USDT', 'market', '1m', open_time,
          open, greatest(open, close) + up, least(open, close) - down, close, volume, round(volume * (open + close) / 2, 6), true
        from (
          select open_time, coalesce(lag(close) over (order by open_time), close) as open, close, up, down, volume
          from (
            select timestamptz '${firstDay}' + m * interval '1 minute' as open_time,
              ${(i + 1) * 1000} + round((sum(random() - 0.5) over (order by m) * 2)::numeric, 2) as close,
              round((random() * 0.8)::numeric, 2) as up, round((random() * 0.8)::numeric, 2) as down,
              round((random() ^ 3 * 40)::numeric, 4) as volume
            from generate_series(0, ${minutes - 1}) as m
          ) walk
        ) candle`)
    } finally {
      client.release()
    }
  }
}

/** A day of tickers of 800 futures, one every 5 seconds, with all the fields that the service fills in. */
export async function loadTickers(pool: pg.Pool, hours: number): Promise<void> {
  await pool.query(`
    insert into market.instruments (category, symbol, first_seen_at, updated_at)
    select 'USDT-FUTURES', 'T' || i || 'USDT', now(), now() from generate_series(1, 800) as i`)
  for (let hour = 0; hour < hours; hour++) {
    const client = await pool.connect()
    try {
      await client.query('set synchronous_commit = off')
      await client.query(`
        insert into market.tickers (category, symbol, ts, last_price, bid1_price, bid1_size, ask1_price, ask1_size,
          open_price_24h, high_price_24h, low_price_24h, volume_24h, turnover_24h, price_24h_pcnt, index_price, mark_price,
          funding_rate, open_interest, received_at)
        select 'USDT-FUTURES', 'T' || i || 'USDT', t, p, p - 0.01, s, p + 0.01, s + 1, i, i * 1.1, i * 0.9,
          s * 1000, round(s * p * 1000, 4), 0.0123, p + 0.0041, p + 0.002, 0.0001, s * 50, t + interval '300 ms'
        from generate_series(timestamptz '${tickerDay}' + interval '${hour} hours',
          timestamptz '${tickerDay}' + interval '${hour + 1} hours' - interval '1 second', interval '5 seconds') as t
        cross join generate_series(1, 800) as i
        cross join lateral (
          select round((i + random())::numeric, 2) as p, round((random() * 900)::numeric, 3) as s
        ) as noise`)
    } finally {
      client.release()
    }
  }
}
