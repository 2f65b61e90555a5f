import { type AnalystFunction, instrument, range } from './analystFunction.js'

/**
 * Makes a function for bars that close after an amount was traded. A fill counts whole in the bar in which it begins.
 * No fill is split, and all bars together hold exactly the fills of the range.
 *
 * @param measure the amount of a fill that fills a bar
 */
function bars(name: string, measure: string, unit: string): AnalystFunction {
  return {
    signature: `(${instrument}, ${range}, bar_size numeric)`,
    returns:
      'table (bar bigint, open_time timestamptz, close_time timestamptz, open numeric, high numeric, low numeric, ' +
      'close numeric, base_volume numeric, quote_turnover numeric, buy_volume numeric, fills bigint)',
    volatility: 'stable',
    body: `
      select row_number() over (order by d.bar), min(d.ts), max(d.ts),
        (array_agg(d.price order by d.ts, d.exec_id))[1], max(d.price), min(d.price),
        (array_agg(d.price order by d.ts desc, d.exec_id desc))[1], sum(d.base), sum(d.quote),
        coalesce(sum(d.base) filter (where d.side = 'buy'), 0), count(*)
      from (
        select a.*, div(sum(a.${measure}) over (order by a.ts, a.exec_id) - a.${measure}, bar_size) as bar
        from (
          select f.ts, f.exec_id, f.price, f.side, market.fill_base_size(f.category, f.price, f.size) as base,
            market.fill_quote_value(f.category, f.price, f.size) as quote
          from market.fills f
          where f.category = ${name}.category and f.symbol = ${name}.symbol and f.ts >= from_time and f.ts < to_time
        ) a
      ) d
      group by d.bar order by d.bar`,
    comment:
      `Bars of the fills of a half-open range, one for each bar_size ${unit}, the last of what is left. A fill counts whole in ` +
      'the bar in which it begins, and what it exceeds counts towards the next. The first bar begins at from_time.',
  }
}

/**
 * Makes a function for a figure of the sizes on both sides of an order book. Its language is not SQL, because the
 * planner does not inline a body with a query inside. Calling such a function takes twenty times as long as this loop.
 *
 * @param figure made of `bids`, `asks` and the best prices
 */
function ofBook(figure: string, comment: string): AnalystFunction {
  const sum = (side: string, isBeyond: string) => `
        for i in 1..cardinality(${side}_prices) loop
          exit when ${side}_prices[i] * 20000 ${isBeyond};
          ${side}s := ${side}s + ${side}_sizes[i];
        end loop;`
  return {
    signature:
      '(bid_prices numeric[], bid_sizes numeric[], ask_prices numeric[], ask_sizes numeric[], within_bps numeric default null)',
    returns: 'numeric',
    volatility: 'immutable',
    language: 'plpgsql',
    body: `
      declare
        bids numeric := bid_sizes[1];
        asks numeric := ask_sizes[1];
        twice_mid constant numeric := bid_prices[1] + ask_prices[1];
      begin
        if twice_mid is null or within_bps is null then
          return ${figure};
        end if;
        bids := 0;
        asks := 0;${sum('bid', '< twice_mid * (10000 - within_bps)')}${sum('ask', '> twice_mid * (10000 + within_bps)')}
        return ${figure};
      end`,
    comment,
  }
}

const candleCloses = (name: string) => `
        select c.open_time, c.close,
          case when lag(c.open_time) over (order by c.open_time) = c.open_time - width
            then ln(c.close::float8 / nullif(lag(c.close::float8) over (order by c.open_time), 0)) end as log_return
        from market.ohlcv(${name}.category, ${name}.symbol, width, from_time - width, to_time) c`

/**
 * Functions for studies: returns and volatility, books as figures, bars, and joins by time. Logarithms are of double
 * precision, because as decimals they would not be exact either. All other results are exact to the last digit.
 */
export const researchFunctions: Readonly<Record<string, AnalystFunction>> = {
  universe_at: {
    signature: '(moment timestamptz)',
    returns: 'setof market.instrument_history',
    volatility: 'stable',
    body: `
      select h.* from market.instrument_history h
      where h.valid_from <= moment and (h.valid_to is null or h.valid_to > moment)`,
    comment:
      'The instruments that were listed at a moment, also those that have gone since, each with the specification that held ' +
      'then. Selecting from it keeps survivors from being the only ones in a study.',
  },
  log_returns: {
    signature: `(${instrument}, width interval, ${range})`,
    returns: 'table (open_time timestamptz, close numeric, log_return double precision)',
    volatility: 'stable',
    body: `
      select r.open_time, r.close, r.log_return
      from (${candleCloses('log_returns')}
      ) r
      where r.open_time >= from_time`,
    comment:
      'Logarithm of the close of each candle over the close of the candle before it, from closed 1m candles. NULL where the ' +
      'candle before is missing, so that no return spans a gap. Begin the range at a multiple of width.',
  },
  realized_volatility: {
    signature: `(${instrument}, width interval, ${range})`,
    returns: 'double precision',
    volatility: 'stable',
    body: `
      select sqrt(sum(r.log_return * r.log_return) / nullif(count(r.log_return), 0)
        * (31536000 / extract(epoch from width)::float8))
      from market.log_returns(realized_volatility.category, realized_volatility.symbol, width, from_time, to_time) r`,
    comment:
      'Realized volatility of a half-open range as a fraction a year of 365 days: the root of the mean square of the log ' +
      'returns of candles of this width. NULL without a return.',
  },
  book_imbalance: ofBook(
    '(bids - asks) / nullif(bids + asks, 0)',
    '(bids - asks) / (bids + asks) of an order book: 1 is only bids, -1 only asks. Of the best level, or of all levels up to ' +
      'within_bps basis points from the middle price. NULL when a side is empty.',
  ),
  microprice: ofBook(
    '(ask_prices[1] * bids + bid_prices[1] * asks) / nullif(bids + asks, 0)',
    'The best prices, each weighted by the size of the other side: nearer to the ask when there are more bids. Sizes of the ' +
      'best level, or of all levels up to within_bps basis points from the middle price. NULL when a side is empty.',
  ),
  volume_bars: bars('volume_bars', 'base', 'of volume (base coin)'),
  dollar_bars: bars('dollar_bars', 'quote', 'of turnover (quote coin)'),
  fills_with_quotes: {
    signature: `(${instrument}, ${range}, max_age interval default '1 minute')`,
    returns:
      'table (ts timestamptz, exec_id text, side market.side, price numeric, size numeric, is_rpi boolean, ' +
      'quote_ts timestamptz, bid_price numeric, ask_price numeric, mid numeric, effective_spread_bps numeric)',
    volatility: 'stable',
    // Fills and quotes are sorted together once. The largest quote so far is the newest, because its time is its first
    // element. A look-up of the quote of each fill would search a compressed table for each fill.
    body: `
      with events as (
        select f.ts, f.exec_id, f.side, f.price, f.size, f.is_rpi, null::numeric[] as quote
        from market.fills f
        where f.category = fills_with_quotes.category and f.symbol = fills_with_quotes.symbol
          and f.ts >= from_time and f.ts < to_time
        union all
        select t.ts, null, null, null, null, null, array[extract(epoch from t.ts), 1, t.bid1_price, t.ask1_price]
        from market.tickers t
        where t.category = fills_with_quotes.category and t.symbol = fills_with_quotes.symbol
          and t.ts >= from_time - max_age and t.ts < to_time and t.bid1_price is not null and t.ask1_price is not null
        union all
        select b.ts, null, null, null, null, null, array[extract(epoch from b.ts), 2, b.best_bid, b.best_ask]
        from market.order_books b
        where b.category = fills_with_quotes.category and b.symbol = fills_with_quotes.symbol
          and b.ts >= from_time - max_age and b.ts < to_time and b.mid is not null
      ), sorted as (
        select e.*, max(e.quote) over (order by e.ts, e.exec_id nulls first rows unbounded preceding) as newest
        from events e
      ), joined as (
        select s.ts, s.exec_id, s.side, s.price, s.size, s.is_rpi,
          case when s.newest[1] >= extract(epoch from s.ts - max_age) then s.newest end as quote
        from sorted s
        where s.exec_id is not null
      )
      select j.ts, j.exec_id, j.side, j.price, j.size, j.is_rpi,
        timestamptz 'epoch' + make_interval(secs => j.quote[1]::float8), j.quote[3], j.quote[4],
        (j.quote[3] + j.quote[4]) * 0.5,
        case j.side when 'buy' then 20000 else -20000 end
          * (j.price - (j.quote[3] + j.quote[4]) * 0.5) / nullif((j.quote[3] + j.quote[4]) * 0.5, 0)
      from joined j
      order by j.ts, j.exec_id`,
    comment:
      'Each fill of a half-open range with the newest quote at its moment: the best bid and ask of an order book or a ticker, ' +
      'whichever is newer. NULL where none is as young as max_age. effective_spread_bps is twice the distance from the middle ' +
      'price in basis points, positive when the taker paid.',
  },
  on_grid: {
    signature:
      '(times timestamptz[], "values" anyarray, from_time timestamptz, to_time timestamptz, step interval, ' +
      'max_age interval default null)',
    returns: 'table (moment timestamptz, ts timestamptz, value anyelement)',
    volatility: 'immutable',
    body: `
      select g.moment, u.ts, u.value
      from (
        select s.moment, width_bucket(s.moment, times) as place
        from generate_series(from_time, to_time - interval '1 microsecond', step) as s (moment)
      ) g
      -- unnest() is called among the columns, because there it keeps a row in one piece.
      left join (
        select unnest(times) as ts, unnest("values") as value, generate_series(1, cardinality(times)) as place
      ) u on u.place = g.place and (max_age is null or u.ts >= g.moment - max_age)
      order by g.moment`,
    comment:
      'The newest of any values at each step of a half-open range. times ascends and has the time of each value; ' +
      'array_agg(… order by ts) makes both. A value can be a whole row. NULL where none is as young as max_age.',
  },
}
