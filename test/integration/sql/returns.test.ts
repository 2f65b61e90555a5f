import { expect, it } from 'vitest'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
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

it('a bucket that lacks stored minutes is not complete, and the last day lacks none', async () => {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - 2 * 3_600_000)
  for (const begin of [new Date('2026-01-05T10:00Z'), hour]) {
    const at = (minutes: number) => new Date(begin.getTime() + minutes * 60_000).toISOString()
    const { database, store, read, drop } = await withMinutes(at(0), at(60), [[at(5), at(20), '1']])
    await refreshRollups(database.db, [{ from: begin.getTime(), to: begin.getTime() + 3_600_000 }])
    await store(at(20), at(50), '2')
    const complete = (relation: string) => read(`select minutes, is_complete from ${relation}`)
    const call = (width: string) => `market.ohlcv('SPOT', 'X', '${width}', '${at(0)}', '${at(60)}')`
    const isStale = (found: string[]) => found.length === 1 && found[0] === '(15,f)'
    for (const relation of ['market.ohlcv_1h', call('1 hour'), call('30 minutes')]) {
      const found = await complete(relation)
      const wanted = relation === call('30 minutes') ? ['(25,t)', '(20,t)'] : ['(45,t)']
      if (begin === hour && relation !== 'market.ohlcv_1h') expect(found).toEqual(wanted)
      else if (relation !== call('30 minutes')) expect(isStale(found) || found[0] === '(45,t)', found.join()).toBe(true)
    }
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
