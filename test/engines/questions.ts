/** The few words that the engines spell differently. All others of the questions are the same SQL in each. */
export interface Dialect {
  /** The begin of the `minutes` since the epoch that a time lies in. */
  readonly bin: (minutes: number, time: string) => string
  /** Seconds between two times. */
  readonly seconds: (from: string, to: string) => string
  /** Values at the lowest and the highest time of a group. */
  readonly first: (value: string, time: string) => string
  readonly last: (value: string, time: string) => string
  /** Element of an array, from 1. */
  readonly at: (array: string, place: number) => string
  /** A relation that PostgreSQL has as a view. */
  readonly ohlcv: (name: 'ohlcv_5m' | 'ohlcv_15m' | 'ohlcv_1h' | 'ohlcv_1d') => string
}

const minutesOf = { ohlcv_5m: 5, ohlcv_15m: 15, ohlcv_1h: 60, ohlcv_1d: 1440 } as const

/** Candles of another width, as the views of the database make them. */
function withRollups(dialect: Omit<Dialect, 'ohlcv'>): Dialect {
  return {
    ...dialect,
    ohlcv: (name) => `(
  select category, symbol, ${dialect.bin(minutesOf[name], 'c.open_time')} as open_time,
    ${dialect.first('c."open"', 'c.open_time')} as "open", max(c.high) as high, min(c.low) as low,
    ${dialect.last('c."close"', 'c.open_time')} as "close",
    sum(c.base_volume) as base_volume, sum(c.quote_turnover) as quote_turnover
  from market.candles c
  where c."type" = 'market' and c."interval" = '1m' and c.is_closed
  group by category, symbol, ${dialect.bin(minutesOf[name], 'c.open_time')}) ${name}`,
  }
}

export type EngineName = 'duckdb' | 'spark' | 'trino' | 'clickhouse'

export const dialects: Readonly<Record<EngineName | 'postgres', Dialect>> = {
  postgres: {
    bin: (minutes, time) => `date_bin('${minutes} minutes', ${time}, timestamptz '1970-01-01 00:00:00Z')`,
    seconds: (from, to) => `extract(epoch from (${to}) - (${from}))`,
    first: (value, time) => `(array_agg(${value} order by ${time}))[1]`,
    last: (value, time) => `(array_agg(${value} order by ${time} desc))[1]`,
    at: (array, place) => `${array}[${place}]`,
    ohlcv: (name) => `market.${name}`,
  },
  duckdb: withRollups({
    bin: (minutes, time) => `time_bucket(interval '${minutes} minutes', ${time}, timestamptz '1970-01-01 00:00:00Z')`,
    seconds: (from, to) => `(epoch_us((${to})::timestamptz) - epoch_us((${from})::timestamptz)) / 1000000`,
    first: (value, time) => `arg_min(${value}, ${time})`,
    last: (value, time) => `arg_max(${value}, ${time})`,
    at: (array, place) => `${array}[${place}]`,
  }),
  spark: withRollups({
    bin: (minutes, time) => `timestamp_seconds(floor(unix_seconds(${time}) / ${minutes * 60}) * ${minutes * 60})`,
    seconds: (from, to) => `(unix_micros(${to}) - unix_micros(${from})) / 1000000`,
    first: (value, time) => `min_by(${value}, ${time})`,
    last: (value, time) => `max_by(${value}, ${time})`,
    at: (array, place) => `element_at(${array}, ${place})`,
  }),
  trino: withRollups({
    bin: (minutes, time) => `from_unixtime(floor(to_unixtime(${time}) / ${minutes * 60}) * ${minutes * 60})`,
    seconds: (from, to) => `date_diff('millisecond', ${from}, ${to}) / 1e3`,
    first: (value, time) => `min_by(${value}, ${time})`,
    last: (value, time) => `max_by(${value}, ${time})`,
    at: (array, place) => `element_at(${array}, ${place})`,
  }),
  clickhouse: withRollups({
    bin: (minutes, time) =>
      `toDateTime64(toStartOfInterval(${time}, interval ${minutes} minute, toDateTime64(0, 6, 'UTC')), 6, 'UTC')`,
    seconds: (from, to) =>
      `(toUnixTimestamp64Micro(toDateTime64(${to}, 6)) - toUnixTimestamp64Micro(toDateTime64(${from}, 6))) / 1000000`,
    first: (value, time) => `argMin(${value}, ${time})`,
    last: (value, time) => `argMax(${value}, ${time})`,
    at: (array, place) => `${array}[${place}]`,
  }),
}

interface Question {
  /** As in the cookbook. */
  readonly title: string
  readonly sql: (dialect: Dialect) => string
}

const between = (column: string, from: string, to: string) =>
  `${column} >= timestamp '${from} 00:00:00' and ${column} < timestamp '${to} 00:00:00'`
const [day, next, month] = ['2026-03-02', '2026-03-03', '2026-04-01']
const inDay = (column: string) => between(column, day, next)
const inMonth = (column: string) => between(column, day, month)
const bitcoin = `category = 'USDT-FUTURES' and symbol = 'BTCUSDT'`
const ether = `category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`
const [begin, end] = [`timestamp '${day} 00:00:00'`, `timestamp '${next} 00:00:00'`]
const double = (value: string) => `cast(${value} as double)`

export const questions: readonly Question[] = [
  {
    title: 'What does each instrument cost now?',
    sql: () => `
select n.category, n.symbol, n.ts, n.last_price, n.price_24h_pcnt * 100 as change_percent, n.turnover_24h
from (
  select t.category, t.symbol, t.ts, t.last_price, t.price_24h_pcnt, t.turnover_24h,
    row_number() over (partition by t.category, t.symbol order by t.ts desc) as nth
  from market.tickers t) n
join market.instruments i on i.category = n.category and i.symbol = n.symbol
where n.nth = 1 and i.disappeared_at is null`,
  },
  {
    title: 'What are the hourly candles of an instrument?',
    sql: ({ ohlcv }) => `
select open_time, "open", high, low, "close", base_volume from ${ohlcv('ohlcv_1h')} where ${ether} and ${inDay('open_time')}`,
  },
  {
    title: 'How does the price compare with its moving average?',
    sql: ({ ohlcv }) => `
select open_time, "close",
  avg(${double('"close"')}) over (order by open_time rows between 19 preceding and current row) as average_of_20
from ${ohlcv('ohlcv_15m')} where ${ether} and ${inDay('open_time')}`,
  },
  {
    title: 'Which instruments moved the most in a day?',
    sql: ({ ohlcv }) => `
select category, symbol, "open", "close", (${double('"close"')} / ${double('"open"')} - 1) * 100 as change_percent
from ${ohlcv('ohlcv_1d')} where open_time = ${begin}`,
  },
  {
    title: 'How volatile was each of them?',
    sql: ({ ohlcv }) => `
select category, symbol, stddev_samp(r) * sqrt(365.0 * 24) * 100 as yearly_percent
from (
  select category, symbol,
    ln(${double('"close"')} / lag(nullif(${double('"close"')}, 0)) over (partition by category, symbol order by open_time)) as r
  from ${ohlcv('ohlcv_1h')} where ${inMonth('open_time')}) hours
group by category, symbol`,
  },
  {
    title: 'Do two instruments move together?',
    sql: ({ ohlcv }) => `
with hours as (
  select symbol, open_time, ln(${double('"close"')} / lag(nullif(${double('"close"')}, 0)) over (partition by symbol order by open_time)) as r
  from ${ohlcv('ohlcv_5m')} where category = 'USDT-FUTURES' and ${inDay('open_time')})
select count(*) as returns, corr(b.r, e.r) as correlation
from hours b join hours e on b.open_time = e.open_time
where b.symbol = 'BTCUSDT' and e.symbol = 'ETHUSDT' and b.r is not null and e.r is not null`,
  },
  {
    title: 'At what time of day is trading heaviest?',
    sql: ({ ohlcv }) => `
select extract(hour from open_time) as hour_utc, avg(${double('quote_turnover')}) as turnover_an_hour
from ${ohlcv('ohlcv_1h')} where category = 'SPOT' and symbol = 'BTCUSDT' and ${inMonth('open_time')}
group by extract(hour from open_time)`,
  },
  {
    title: 'What were the hourly returns of several instruments, side by side?',
    sql: ({ ohlcv }) => `
select open_time,
  max(case when symbol = 'BTCUSDT' then ${double('"close"')} / ${double('"open"')} - 1 end) as btc,
  max(case when symbol = 'ETHUSDT' then ${double('"close"')} / ${double('"open"')} - 1 end) as eth
from ${ohlcv('ohlcv_1h')} where category = 'USDT-FUTURES' and ${inDay('open_time')} group by open_time`,
  },
  {
    title: 'What was the volume-weighted average price over a period?',
    sql: () => `
select symbol, sum(price * size) as turnover, sum(size) as volume, ${double('sum(price * size)')} / ${double('sum(size)')} as vwap
from market.fills where category = 'USDT-FUTURES' and ${inMonth('ts')} group by symbol`,
  },
  {
    title: 'And in steps?',
    sql: ({ bin }) => `
select ${bin(30, 'ts')} as since, sum(price * size) as turnover, count(*) as fills
from market.fills where ${bitcoin} and ${inDay('ts')} group by ${bin(30, 'ts')}`,
  },
  {
    title: 'At which prices did trades happen?',
    sql: () => `
select floor(${double('price')} / 50) * 50 as price_from, sum(size) as volume, sum(case when side = 'buy' then size end) as buy_volume,
  count(*) as fills
from market.fills where ${bitcoin} and ${inDay('ts')} group by floor(${double('price')} / 50) * 50`,
  },
  {
    title: 'Who was in a hurry, buyers or sellers?',
    sql: ({ bin }) => `
select ${bin(60, 'ts')} as since, side, count(*) as fills, sum(size) as volume
from market.fills where ${ether} and ${inDay('ts')} group by ${bin(60, 'ts')}, side`,
  },
  {
    title: 'Which were the largest fills?',
    sql: () => `
select ts, side, price, size, price * size as turnover from market.fills
where ${bitcoin} and ${inMonth('ts')} order by size desc, ts, exec_id limit 10`,
  },
  {
    title: 'How much was filled against RPI quotes?',
    sql: () => `
select symbol, sum(case when is_rpi then size end) as rpi, sum(size) as volume
from market.fills where category = 'USDT-FUTURES' and ${inMonth('ts')} group by symbol`,
  },
  {
    title: 'How long after a fill was it received?',
    sql: ({ seconds }) => `
select category, symbol, count(*) as fills, min(${seconds('ts', 'received_at')}) as least, max(${seconds('ts', 'received_at')}) as longest
from market.fills where ${inMonth('ts')} group by category, symbol`,
  },
  {
    title: 'What was the best bid and ask?',
    sql: ({ at }) => `
select ts, ${at('bid_prices', 1)} as bid, ${at('ask_prices', 1)} as ask, ${at('bid_sizes', 1)} as bid_size
from market.order_books where ${bitcoin} and ${inDay('ts')}`,
  },
  {
    title: 'How wide was the spread?',
    sql: ({ at }) => `
select category, symbol, count(*) as books, min(${at('ask_prices', 1)} - ${at('bid_prices', 1)}) as narrowest,
  max(${at('ask_prices', 1)} - ${at('bid_prices', 1)}) as widest
from market.order_books where ${inMonth('ts')} group by category, symbol`,
  },
  {
    title: 'How much of the best quotes is RPI?',
    sql: ({ at }) => `
select symbol, sum(${at('bid_rpi_sizes', 1)}) as rpi, sum(${at('bid_sizes', 1)}) as visible
from market.rpi_order_books where ${inMonth('ts')} group by symbol`,
  },
  {
    title: 'Does open interest grow with the price?',
    sql: ({ bin, first, last }) => `
select ${bin(240, 'ts')} as since, max(open_interest) - min(open_interest) as spread,
  ${last('open_interest', 'ts')} - ${first('open_interest', 'ts')} as change,
  ${last('last_price', 'ts')} - ${first('last_price', 'ts')} as price_change
from market.tickers where ${bitcoin} and ${inDay('ts')} group by ${bin(240, 'ts')}`,
  },
  {
    title: 'How far was the mark price from the index?',
    sql: ({ bin }) => `
select ${bin(360, 'ts')} as six_hours, avg(10000 * (${double('mark_price')} / ${double('index_price')} - 1)) as mean_bps,
  max(abs(10000 * (${double('mark_price')} / ${double('index_price')} - 1))) as max_bps
from market.tickers where ${bitcoin} and ${inMonth('ts')} and mark_price is not null and index_price > 0
group by ${bin(360, 'ts')}`,
  },
  {
    title: 'How many instruments are there?',
    sql: () => `
select category, status, count(*) as instruments, count(disappeared_at) as gone from market.instruments group by category, status`,
  },
  {
    title: 'When did the specification of an instrument change?',
    sql: () => `
select symbol, valid_from, valid_to, status, price_multiplier from market.instrument_history where category = 'USDT-FUTURES'`,
  },
  {
    title: 'Which instruments were listed on a day?',
    sql: () => `
select category, symbol, status from market.instrument_history
where valid_from <= timestamp '${day} 12:00:00' and (valid_to is null or valid_to > timestamp '${day} 12:00:00')`,
  },
  {
    title: 'Which instruments had RPI quotes, and when?',
    sql: () => `select symbol, valid_from, valid_to from market.rpi_symbols where category = 'USDT-FUTURES'`,
  },
  {
    title: 'What is proven to be complete?',
    sql: () => `
select symbol, stream, "interval", greatest(from_time, ${begin}) as since, least(to_time, ${end}) as until
from market.coverage where category = 'USDT-FUTURES' and from_time < ${end} and to_time > ${begin}`,
  },
  {
    title: 'How much of each day is complete?',
    sql: ({ seconds }) => `
select category, symbol, stream, sum(${seconds(`greatest(from_time, ${begin})`, `least(to_time, ${end})`)}) as seconds
from market.coverage where from_time < ${end} and to_time > ${begin} group by category, symbol, stream`,
  },
  {
    title: 'What is missing, and why?',
    sql: () => `
select symbol, stream, from_time, to_time, reason, state from market.gaps where state <> 'repaired' and from_time >= ${begin}`,
  },
  {
    title: 'What did the service change afterwards?',
    sql: () => `
select symbol, "interval", open_time, old_close, new_close, new_base_volume - old_base_volume as more_volume
from market.candle_revisions where ${ether} and ${inDay('open_time')}`,
  },
  {
    title: 'Which fields does the service send that its specification does not name?',
    sql: () => `
select symbol, count(*) as fills, min(ts) as first_seen from market.fills
where cast(extra as varchar(1000)) like '%"source"%' and ${inMonth('ts')} group by symbol`,
  },
]

/** Asks for one instrument on one day: its bytes are compared with those of the month. */
export const narrow = {
  table: 'candles',
  sql: `select max(high), min(low), sum(base_volume) from market.candles where ${bitcoin} and ${inDay('open_time')}`,
} as const
