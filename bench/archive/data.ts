import type pg from 'pg'
import { folderTarget } from '../../src/files/layout/target.js'
import { sum } from '../../src/market/values.js'
import { filesOf } from '../../test/support/archives.js'

/** Number of instruments of all that is made here. */
export const instruments = 20
const firstDay = '2026-01-01 00:00Z'

const symbolOf = (i: number) => `BENCH${String(i).padStart(2, '0')}USDT`

/**
 * Fills of a day, evenly over 20 instruments. Prices walk by ticks of 0.1, sizes have three decimals, as those of
 * futures. All walk as the first does, at other prices, which takes a fraction of the time. In files they are too far
 * apart for that to matter.
 */
export async function loadFills(pool: pg.Pool, day: string, rows: number): Promise<void> {
  const each = Math.floor(rows / instruments)
  const columns = 'category, symbol, ts, exec_id, side, price, size, is_rpi, received_at'
  await pool.query(`
    insert into market.fills (${columns})
    select 'USDT-FUTURES', '${symbolOf(0)}', ts, exec_id, side::market.side, price, size, false,
      ts + make_interval(secs => 0.2 + random())
    from (
      select timestamptz '${day} 00:00Z' + interval '1 millisecond' * (n * (86400000::float8 / ${each}))::bigint as ts,
        (1400000000000000000 + n::bigint * 7919)::text as exec_id,
        case when random() < 0.5 then 'buy' else 'sell' end as side,
        trim_scale(1000 + round((sum(round((random() - 0.5)::numeric * 4)) over (order by n)) / 10, 1)) as price,
        trim_scale(round((random() ^ 4 * 20 + 0.001)::numeric, 3)) as size
      from generate_series(0, ${each - 1}) as n
    ) as fill`)
  for (let i = 1; i < instruments; i++) {
    await pool.query(`
      insert into market.fills (${columns})
      select category, '${symbolOf(i)}', ts, (exec_id::bigint + ${i})::text, side, price + ${i * 1000}, size, is_rpi, received_at
      from market.fills
      where category = 'USDT-FUTURES' and symbol = '${symbolOf(0)}'
        and ts >= timestamptz '${day} 00:00Z' and ts < timestamptz '${day} 00:00Z' + interval '24 hours'`)
  }
}

/** Books of 100 levels on each side, a snapshot a second of 20 instruments: a level keeps its size for a while. */
export async function loadBooks(pool: pg.Pool, day: string, rows: number): Promise<void> {
  const sizeOf = (level: string) =>
    `(abs(hashint8((${level})::bigint * 131 + (t + abs(hashint8((${level})::bigint)) % 30) / 30)) % 90000 + 1) / 1000.0`
  for (let i = 0; i < instruments; i++) {
    await pool.query(`
      insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
      select 'USDT-FUTURES', '${symbolOf(i)}', timestamptz '${day} 00:00Z' + t * interval '1 second',
        array(select (mid - level) / 10.0 from generate_series(0, 99) as level),
        array(select trim_scale(${sizeOf('mid - level')}) from generate_series(0, 99) as level),
        array(select (mid + 1 + level) / 10.0 from generate_series(0, 99) as level),
        array(select trim_scale(${sizeOf('mid + 1 + level')}) from generate_series(0, 99) as level),
        timestamptz '${day} 00:00Z' + t * interval '1 second' + interval '150 milliseconds'
      from (
        select t, ${(i + 1) * 10000} + (sum(round((random() - 0.5)::numeric * 3)) over (order by t))::bigint as mid
        from generate_series(0, ${Math.floor(rows / instruments) - 1}) as t
      ) as walk`)
  }
}

/**
 * Closed 1m candles of a random walk, as noisy as real ones, and equal in every run. Prices have ticks of 0.01. Volumes
 * have four decimals and turnovers six, and none of them repeats.
 */
export async function loadCandles(pool: pg.Pool, rows: number): Promise<void> {
  const minutes = Math.ceil(rows / instruments)
  for (let i = 0; i < instruments; i++) {
    const client = await pool.connect()
    try {
      await client.query('set synchronous_commit = off')
      await client.query(`select setseed(${i / instruments})`)
      await client.query(`
        insert into market.candles
        select 'USDT-FUTURES', '${symbolOf(i)}', 'market', '1m', open_time,
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

/** Rows and bytes of the files that a table of an archive shows. */
export async function archiveFiles(folder: string, table: string): Promise<{ rows: number; bytes: number }> {
  const files = await filesOf(folderTarget(folder), table)
  return { rows: sum(files.map(({ rows }) => rows)), bytes: sum(files.map(({ bytes }) => bytes)) }
}
