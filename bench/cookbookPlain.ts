const span = (width: string) => `interval '${width}'`
/** Candles of a width with the minutes of each, and whether each of them is stored, or proven to be without trade. */
const rollUp = (which: string, width: string, from: string, to: string, origin = 'epoch') => `
  select b.*, minutes = extract(epoch from ${span(width)}) / 60 or exists (
    select from market.coverage where ${which} and stream = 'candles' and type = 'market' and interval = '1m'
      and from_time <= b.open_time and to_time >= b.open_time + ${span(width)}) as is_complete
  from (
    select date_bin('${width}', open_time, timestamptz '${origin}') as open_time, (array_agg(open order by open_time))[1] as open,
      max(high) as high, min(low) as low, (array_agg(close order by open_time desc))[1] as close,
      case when count(base_volume) = count(*) then sum(base_volume) end as base_volume,
      case when count(quote_turnover) = count(*) then sum(quote_turnover) end as quote_turnover, count(*) as minutes
    from market.candles where ${which} and type = 'market' and interval = '1m' and is_closed and open_time >= '${from}' and open_time < '${to}'
    group by 1) b`
const fillsOf = (which: string, from: string, to: string) =>
  `market.fills where ${which} and ts >= '${from}' and ts < '${to}'`

const eth = `category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`
const btc = `category = 'USDT-FUTURES' and symbol = 'BTCUSDT'`
const spot = `category = 'SPOT' and symbol = 'BTCUSDT'`
const [day, nextDay] = ['2026-03-02 00:00:00Z', '2026-03-03 00:00:00Z']
const [noon, two] = ['2026-03-02 12:00:00Z', '2026-03-02 14:00:00Z']

/** The plainest SQL for what functions return, by the question of docs/sql.md. */
export const plainQueries: Readonly<Record<string, string>> = {
  'What did it cost at a moment?': `
    select ts, last_price, bid1_price, ask1_price from market.tickers where ${btc} and ts <= '2026-03-02 12:34:56Z' order by ts desc limit 1`,
  'What are the hourly candles of an instrument?': `${rollUp(eth, '1 hour', noon, '2026-03-02 16:00:00Z')} order by 1`,
  'What are candles of another width, or days that open at 16:00 UTC?': `
    ${rollUp(spot, '24 hours', '2026-03-02 16:00:00Z', '2026-03-04 00:00:00Z', '1970-01-01 16:00:00Z')} order by 1`,
  'How does the price compare with its moving average?': `
    select open_time, close, avg(close) over (order by open_time rows between 19 preceding and current row)
    from (${rollUp(eth, '15 minutes', day, nextDay)}) c order by open_time desc limit 3`,
  'What are the log returns of an instrument?': `
    select open_time, close, case when is_complete and lag(is_complete) over steps and lag(open_time) over steps = open_time - interval '1 hour'
      then ln(close::float8 / lag(close::float8) over steps) end
    from (${rollUp(eth, '1 hour', '2026-03-02 10:00:00Z', '2026-03-02 15:00:00Z')}) c window steps as (order by open_time) order by 1`,
  'At what time of day is trading heaviest?': `
    select extract(hour from open_time at time zone 'UTC'), sum(quote_turnover) / 2
    from (${rollUp(spot, '1 hour', day, '2026-03-04 00:00:00Z')}) c group by 1 order by 2 desc limit 3`,
  'What was the volume-weighted average price over a period?': `
    select sum(size * price) / sum(size) from ${fillsOf(btc, noon, '2026-03-02 13:00:00Z')}`,
  'And in steps?': `
    select date_bin('30 minutes', ts, 'epoch'), sum(size) / sum(size / price), sum(size / price), sum(size), count(*)
    from ${fillsOf(`category = 'COIN-FUTURES' and symbol = 'BTCUSD_CM'`, noon, two)} group by 1 order by 1`,
  'At which prices did trades happen?': `
    select div(price, 100) * 100, sum(size), sum(size) filter (where side = 'buy'), sum(size) filter (where side = 'sell'), count(*)
    from ${fillsOf(btc, noon, two)} group by 1 order by 1`,
  'What are bars of equal volume?': `
    select bar, min(ts), (array_agg(price order by ts, length(exec_id), exec_id))[1], (array_agg(price order by ts desc, length(exec_id) desc, exec_id desc))[1], sum(size),
      sum(size) filter (where side = 'buy'), count(*)
    from (select *, div(sum(size) over (order by ts, length(exec_id), exec_id) - size, 2000) as bar from ${fillsOf(eth, noon, two)}) f group by 1 order by 1`,
}
