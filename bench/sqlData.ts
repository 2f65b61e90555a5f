import type pg from 'pg'

export const instrumentCount = 20
export const firstDay = '2026-01-01 00:00Z'

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
