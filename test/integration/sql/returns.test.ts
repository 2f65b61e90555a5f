import { expect, it } from 'vitest'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
import { detectServer } from '../../../src/server/timescale/server.js'
import { createTestDatabase } from '../../support/database.js'

/** A database with closed minutes of SPOT X at one close each, all of whose time from `from` to `to` is proven. */
async function withMinutes(from: string, to: string, minutes: readonly (readonly [string, string, string])[]) {
  const { database, drop } = await createTestDatabase()
  await database.pool.query(
    `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
     values ('candles', 'SPOT', 'X', 'market', '1m', 'recorded', tstzmultirange(tstzrange($1, $2)))`,
    [from, to],
  )
  const store = async (begin: string, end: string, close: string) =>
    database.pool.query(
      `insert into market.candles select 'SPOT', 'X', 'market', '1m', t, $3, $3, $3, $3, 1, 1, true
       from generate_series($1::timestamptz, $2::timestamptz - interval '1 minute', '1 minute') as t`,
      [begin, end, close],
    )
  for (const [begin, end, close] of minutes) await store(begin, end, close)
  const read = async (query: string): Promise<string[]> => {
    const { rows: found } = await database.pool.query<{ row: string }>(`select q::text as row from (${query}) q`)
    return found.map(({ row }) => row)
  }
  return { database, store, read, drop }
}

it('a silent step has a return of 0, and the next candle that of all the silence', async () => {
  const [from, to] = ['2026-01-01 00:00Z', '2026-01-01 06:00Z']
  const { read, drop } = await withMinutes(from, to, [
    [from, '2026-01-01 01:00Z', '100'],
    ['2026-01-01 02:00Z', '2026-01-01 04:00Z', '200'],
  ])
  const returns = (width: string, begin: string, end: string) =>
    read(`select to_char(open_time at time zone 'UTC', 'HH24'), close, round(log_return::numeric, 12)
      from market.log_returns('SPOT', 'X', '${width}', '${begin}', '${end}')`)
  const doubled = Math.log(2).toFixed(12)
  expect(await returns('1 hour', from, to)).toEqual([
    '(00,100,)',
    '(01,100,0.000000000000)',
    `(02,200,${doubled})`,
    '(03,200,0.000000000000)',
    '(04,200,0.000000000000)',
    '(05,200,0.000000000000)',
  ])
  // The silence may begin before the range, and nobody knows of time that is not proven.
  expect(await returns('1 hour', '2026-01-01 02:00Z', 'infinity')).toEqual([
    `(02,200,${doubled})`,
    '(03,200,0.000000000000)',
    '(04,200,0.000000000000)',
    '(05,200,0.000000000000)',
  ])
  expect(await returns('2 hours', from, to)).toEqual(['(00,100,)', `(02,200,${doubled})`, '(04,200,0.000000000000)'])
  const yearly = Math.sqrt((Math.log(2) ** 2 / 5) * 365 * 24).toFixed(9)
  expect(
    await read(`select round(market.realized_volatility('SPOT', 'X', '1 hour', '${from}', '${to}')::numeric, 9)`),
  ).toEqual([`(${yearly})`])
  await drop()
})

it.each([
  ['100000', '0.00001'],
  ['119.18', '0.0000012'],
  ['1000000000000', '0.000000001'],
  ['100', '100.0000000001'],
])('a return from %s to %s is right to 12 digits', async (before, after) => {
  const { read, drop } = await withMinutes('2026-01-01 00:00Z', '2026-01-01 00:02Z', [
    ['2026-01-01 00:00Z', '2026-01-01 00:01Z', before],
    ['2026-01-01 00:01Z', '2026-01-01 00:02Z', after],
  ])
  const found = await read(`select log_return / ln(${after}::numeric(60, 30) / ${before}::numeric(60, 30))::float8 - 1
    from market.log_returns('SPOT', 'X', '1 minute', '2026-01-01 00:01Z', '2026-01-01 00:02Z')`)
  expect(found).toHaveLength(1)
  expect(Math.abs(Number(found[0]?.slice(1, -1)))).toBeLessThan(1e-12)
  await drop()
})

it('a bucket of a view that lacks stored minutes is not complete, and those of the function lack none', async () => {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - 2 * 3_600_000)
  for (const begin of [new Date('2026-01-05T10:00Z'), hour]) {
    const at = (minutes: number) => new Date(begin.getTime() + minutes * 60_000).toISOString()
    const { database, store, read, drop } = await withMinutes(at(0), at(60), [[at(5), at(20), '1']])
    await refreshRollups(database.db, [{ from: begin.getTime(), to: begin.getTime() + 3_600_000 }])
    await store(at(20), at(50), '2')
    const complete = (relation: string) => read(`select minutes, is_complete from ${relation}`)
    const call = (width: string) => `market.ohlcv('SPOT', 'X', '${width}', '${at(0)}', '${at(60)}')`
    expect(await complete(call('1 hour'))).toEqual(['(45,t)'])
    expect(await complete(call('30 minutes'))).toEqual(['(25,t)', '(20,t)'])
    expect(['(15,f)', '(45,t)']).toContain((await complete('market.ohlcv_1h'))[0])
    await refreshRollups(database.db, [{ from: begin.getTime(), to: begin.getTime() + 3_600_000 }])
    for (const relation of ['market.ohlcv_1h', call('1 hour')]) expect(await complete(relation)).toEqual(['(45,t)'])
    await drop()
  }
})

it('steps without a candle are there up to the newest proof, however long a transaction is open', async () => {
  const now = Math.floor(Date.now() / 60_000) * 60_000
  const at = (minutes: number) => new Date(now + minutes * 60_000).toISOString()
  const { database, drop } = await withMinutes(at(-3), at(2), [[at(-3), at(-2), '5']])
  // The proof is younger than the transaction: as if that had begun two minutes ago.
  const { rows: steps } = await database.pool.query(
    `select from market.candles_without_gaps('SPOT', 'X', '1m', $1, $2) where is_recorded`,
    [at(-3), at(10)],
  )
  expect(steps).toHaveLength(5)
  await drop()
})

/** Compares what functions give of a range with what the stored minutes give, which on some servers are rolled up, too. */
async function expectOfMinutes(read: (query: string) => Promise<string[]>, from: string, to: string): Promise<void> {
  for (const width of ['5 minutes', '30 minutes', '1 hour', '24 hours']) {
    const candles = `select date_bin('${width}', open_time, 'epoch') as open_time,
        (array_agg(open order by open_time))[1] as open, max(high) as high, min(low) as low,
        (array_agg(close order by open_time desc))[1] as close, sum(base_volume) as base_volume, count(*) as minutes
      from market.candles where symbol = 'X' and open_time >= '${from}' and open_time < '${to}' group by 1 order by 1`
    const call = `market.ohlcv('SPOT', 'X', '${width}', '${from}', '${to}')`
    const wanted = await read(candles)
    expect(wanted.length).toBeGreaterThan(0)
    expect(await read(`select open_time, open, high, low, close, base_volume, minutes from ${call}`)).toEqual(wanted)
    // All of the time is proven. A step without a candle repeats the close.
    const returns = `select open_time, close from market.log_returns('SPOT', 'X', '${width}', '${from}', '${to}')`
    const steps = `with c as materialized (${candles})
      select g.step, (select close from c where c.open_time <= g.step order by c.open_time desc limit 1)
      from generate_series(timestamptz '${from}', timestamptz '${to}' - interval '${width}', '${width}') as g (step)`
    expect(await read(returns)).toEqual(await read(steps))
  }
}

it.each(['2026-01-05', '2026-01-06'])(
  'minutes that came or changed after they were rolled up are in every answer, as of %s',
  async (later) => {
    const [from, to] = ['2026-01-05 00:00Z', '2026-01-07 00:00Z']
    const { database, store, read, drop } = await withMinutes(from, to, [
      ['2026-01-05 00:00Z', `${later} 06:00Z`, '100'],
      [`${later} 18:00Z`, to, '100'],
    ])
    await refreshRollups(database.db, [{ from: Date.parse(from), to: Date.parse(to) }])
    await expectOfMinutes(read, from, to)
    await store(`${later} 06:00Z`, `${later} 12:00Z`, '103')
    await store(`${later} 12:30Z`, `${later} 15:01Z`, '99')
    await expectOfMinutes(read, from, to)
    await refreshRollups(database.db, [{ from: Date.parse(from), to: Date.parse(to) }])
    await expectOfMinutes(read, from, to)
    for (const minute of ['03:59', '14:58'])
      await database.pool.query(
        `update market.candles set high = 999, close = 998, base_volume = 77 where open_time = $1`,
        [`${later} ${minute}Z`],
      )
    await expectOfMinutes(read, from, to)
    await drop()
  },
)

it('what was rolled up outlives its minutes', async (context) => {
  const [from, to] = ['2026-01-05 00:00Z', '2026-01-07 00:00Z']
  const { database, store, read, drop } = await withMinutes(from, to, [[from, '2026-01-06 05:07Z', '100']])
  const call = (bounds: string) => read(`select * from market.ohlcv('SPOT', 'X', '1 hour', ${bounds}) order by 1`)
  await refreshRollups(database.db, [{ from: Date.parse(from), to: Date.parse(to) }])
  const before = await call(`'${from}', '${to}'`)
  expect(before).toHaveLength(30)
  await database.pool.query(`delete from market.candles where open_time < '2026-01-06 02:30Z'`)
  await database.pool.query(`insert into recorder.final_rollups (before) values ('2026-01-06 02:30Z')`)
  const { kind } = await detectServer(database.db)
  if (kind !== 'timescale-community') {
    await drop()
    context.skip('only TimescaleDB Community keeps rollups')
  }
  for (const bounds of [`'${from}', '${to}'`, `'-infinity', 'infinity'`]) expect(await call(bounds)).toEqual(before)
  // A backfill stores some of the minutes again, and some that were not there.
  await store('2026-01-05 03:30Z', '2026-01-05 04:00Z', '103')
  await store('2026-01-04 03:30Z', '2026-01-04 03:37Z', '103')
  const after = await call(`'-infinity', 'infinity'`)
  expect(after.slice(1).map((row) => row.replace(/,[tf]\)$/, ''))).toEqual(
    before.map((row) => row.replace(/,[tf]\)$/, '')),
  )
  expect(after[0]).toMatch(/2026-01-04 03:00:00\+00.*,103,.*,7,60,f\)$/)
  await drop()
})

it('a step of a day has 24 hours in the night in which clocks go forward', async () => {
  const { database, drop } = await withMinutes('2026-03-06 00:00Z', '2026-03-11 00:00Z', [
    ['2026-03-06 00:00Z', '2026-03-08 23:30Z', '100'],
    ['2026-03-08 23:30Z', '2026-03-11 00:00Z', '200'],
  ])
  const returns: string[] = []
  for (const zone of ['UTC', 'America/New_York']) {
    const client = await database.pool.connect()
    await client.query(`set timezone = '${zone}'`)
    const { rows } = await client.query<{ returns: string }>(
      `select array_agg(log_return order by open_time)::text as returns
       from market.log_returns('SPOT', 'X', '1 day', '2026-03-08 00:00:01Z', '2026-03-11 00:00Z')`,
    )
    client.release(true)
    returns.push(...rows.map((row) => row.returns))
  }
  expect(returns).toEqual(['{0,0}', '{0,0}'])
  await drop()
})
