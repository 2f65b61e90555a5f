import type pg from 'pg'

const category = 'USDT-FUTURES'
const symbol = (i: number) => `BENCH${String(i).padStart(2, '0')}USDT`

/** Rows of a day of each table; of candles the minutes of the day. */
const perDay = { fills: 10_000, order_books: 300, rpi_order_books: 150, tickers: 3_000 } as const
const instruments = 5

/**
 * Every table that is archived, over days from 2026-01-01 on, with what is proven of them: coverage, gaps, silence, revisions and
 * restatements, some of them over midnight.
 */
export async function loadMarket(pool: pg.Pool, days: number): Promise<void> {
  const from = `timestamptz '2026-01-01 00:00Z'`
  const to = `${from} + interval '${days} days'`
  const times = (rows: number) => {
    const each = Math.floor(rows / instruments)
    return `generate_series(0, ${each * days - 1}) as n cross join lateral (
      select ${from} + n * interval '${86_400 / each} seconds' as t) as time`
  }
  const noise = (digits: number) => `round((random() * 90)::numeric, ${digits})`
  const side = (sign: string, rpi: string) =>
    `array(select 1000 ${sign} level * 0.1 from generate_series(1, 100) as level), array(select ${noise(3)} from generate_series(1, 100))${rpi}`
  for (let i = 0; i < instruments; i++) {
    const key = `'${category}', '${symbol(i)}'`
    await pool.query(`
      insert into market.fills (category, symbol, ts, exec_id, side, price, size, is_rpi, received_at)
      select ${key}, t, (1400000000000000000 + n * 7919)::text, (case when n % 2 = 0 then 'buy' else 'sell' end)::market.side,
        ${(i + 1) * 1000} + ${noise(2)}, ${noise(4)}, n % 3 = 0, t + interval '300 ms' from ${times(perDay.fills)}`)
    await pool.query(`
      insert into market.candles
      select ${key}, 'market', '1m', t, p, p + 1, p - 1, p + ${noise(2)} / 100, ${noise(4)}, ${noise(6)} * 1000, true
      from generate_series(${from}, ${to} - interval '1 minute', interval '1 minute') as t
        cross join lateral (select ${(i + 1) * 1000} + ${noise(2)} as p) as price`)
    for (const [table, rpi] of [
      ['order_books', ''],
      ['rpi_order_books', `, array(select ${noise(3)} from generate_series(1, 100))`],
    ] as const) {
      const more = (side: string) => (rpi === '' ? '' : `, ${side}_rpi_sizes`)
      await pool.query(`
        insert into market.${table} (category, symbol, ts, bid_prices, bid_sizes${more('bid')}, ask_prices, ask_sizes${more('ask')}, received_at, extra)
        select ${key}, t, ${side('-', rpi)}, ${side('+', rpi)}, t + interval '150 ms', jsonb_build_object('n', n)
        from ${times(perDay[table])}`)
    }
    await pool.query(`
      insert into market.tickers (category, symbol, ts, last_price, bid1_price, funding_rate, volume_24h, received_at)
      select ${key}, t, p, p - 0.1, -0.0001 * (n % 7), ${noise(8)}, t + interval '200 ms'
      from ${times(perDay.tickers)} cross join lateral (select ${noise(2)} + 1 as p) as price`)
    await pool.query(`
      insert into market.instruments (category, symbol, kind, first_seen_at, updated_at)
      values (${key}, 'crypto', ${from}, ${from});
      insert into market.instrument_history (category, symbol, kind, valid_from, valid_to)
      values (${key}, 'crypto', ${from}, ${from} + interval '1 day'), (${key}, 'crypto', ${from} + interval '1 day', null);
      insert into market.rpi_symbols (category, symbol, valid_from) values (${key}, ${from});
      insert into recorder.coverage (stream, category, symbol, ranges)
      select stream, ${key}, tstzmultirange(tstzrange(${from}, ${to} - interval '3 hours'))
      from unnest('{tickers,order_books,rpi_order_books,fills}'::text[]) as stream;
      insert into recorder.coverage (stream, category, symbol, type, interval, ranges)
      values ('candles', ${key}, 'market', '1m', tstzmultirange(tstzrange(${from}, ${from} + interval '40 hours'),
        tstzrange(${from} + interval '50 hours', ${to})));
      insert into recorder.empty_range (stream, category, symbol, type, interval, ranges)
      values ('candles', ${key}, 'market', '1m', tstzmultirange(tstzrange(${from} + interval '41 hours', ${from} + interval '42 hours')));
      insert into recorder.gap (stream, category, symbol, type, interval, range, reason, state, detected_at, lost_at)
      values ('candles', ${key}, 'market', '1m', tstzrange(${from} + interval '40 hours', ${from} + interval '50 hours'), 'the service was away', 'open', ${from}, null),
        ('fills', ${key}, '', '', tstzrange(${to} - interval '27 hours', ${to} - interval '3 hours' + interval '${i} seconds'), 'pages did not follow on', 'lost', ${to}, ${to});
      insert into recorder.no_trade (category, symbol, type, interval, part, ranges)
      values (${key}, 'market', '1m', date_bin(interval '1 day', ${from} + interval '5 days', timestamptz 'epoch'),
        tstzmultirange(tstzrange(${from} + interval '5 days', ${from} + interval '5 days 2 hours')));
      insert into recorder.restatement (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles, detected_at)
      values (${key}, 'market', '1m', ${from} + interval '2 days', ${from} + interval '4 days', 1, 5, 2880, ${from} + interval '4 days');
      insert into recorder.candle_revision (category, symbol, type, interval, open_time, revised_at,
        old_open, old_high, old_low, old_close, old_base_volume, old_quote_turnover,
        new_open, new_high, new_low, new_close, new_base_volume, new_quote_turnover)
      select ${key}, 'market', '1m', ${from} + n * interval '7 hours', ${to}, n, n + 1, n, n, 2, 3, n, n + 1, n, n, 2.5, 3.25
      from generate_series(1, 20) as n`)
  }
}

const bookkeeping: Readonly<Record<string, readonly string[]>> = {
  'recorder.coverage': ['updated_at'],
  'recorder.empty_range': ['updated_at'],
  'recorder.gap': ['id'],
  'recorder.no_trade': ['noted_at', 'until', 'turned_up'],
  'recorder.candle_revision': ['id', 'restatement_id'],
  'recorder.restatement': ['id'],
}

/** Of every table how many rows it has, and two sums over all of their values: equal where every row is. */
export async function digests(pool: pg.Pool, tables: readonly string[]): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  const all = [
    ...tables.map((name): [string, readonly string[]] => [`market.${name}`, []]),
    ...Object.entries(bookkeeping),
  ]
  for (const [table, left] of all) {
    const { rows: columns } = await pool.query<{ name: string; type: string }>(
      `select a.attname as name, t.typname as type from pg_attribute a join pg_type t on t.oid = a.atttypid
       where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`,
      [table],
    )
    // A decimal is as good with zeros at its end as without.
    const values = columns
      .filter(({ name }) => !left.includes(name))
      .map(({ name, type }) => {
        if (type === 'numeric') return `trim_scale("${name}")`
        return type === '_numeric' ? `array(select trim_scale(e) from unnest("${name}") as e)` : `"${name}"`
      })
    const row = `row(${values.join(', ')})::text`
    const { rows } = await pool.query<Record<string, string>>(
      `select count(*)::text as n, sum(hashtextextended(${row}, 1))::text as a, sum(hashtextextended(${row}, 2))::text as b from ${table}`,
    )
    found[table] = Object.values(rows[0] ?? {}).join(' ')
  }
  return found
}
