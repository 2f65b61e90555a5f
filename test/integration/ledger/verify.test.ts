import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findGaps } from '../../../src/history/repairs.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { verify } from '../../../src/ledger/verify.js'
import type { CandleSeries, Interval } from '../../../src/market/candle.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { insertFills } from '../../support/insertFills.js'
import { runBackfill } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { addCoverage } from '../../support/coverage.js'
import { aCandle } from '../../support/marketRows.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const now = Date.UTC(2026, 5, 15, 12, 34, 56)

let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
  simulator = await startSimulator({
    now: () => now,
    limits: { enforce: false },
    customInstruments: [
      { category: 'SPOT', symbol: 'BTCUSDT', launchTime: now - 100 * dayMs, fillsPerHour: 600 },
      { category: 'COIN-FUTURES', symbol: 'BTCUSD_CM', launchTime: now - 100 * dayMs, fillsPerHour: 600 },
    ],
  })
  await runBackfill(
    test,
    simulator,
    {
      stream: 'candles',
      categories: ['SPOT', 'COIN-FUTURES'],
      symbols: ['*'],
      types: ['market', 'mark'],
      intervals: ['1m', '1H', '1D'],
      from: now - 3 * dayMs,
      to: now,
    },
    { serviceNow: now },
  )
})
afterAll(async () => {
  await simulator.close()
  await test.drop()
})

async function verified(): Promise<Record<string, readonly string[]>> {
  const results: Record<string, readonly string[]> = {}
  for await (const { check, disagreements, oddRows } of verify(test.database.db, () => true)) {
    if (oddRows !== undefined) continue
    results[check] = disagreements.map(
      ({ series, count, detail }) => `${series.symbol} ${series.interval} ${count} ${detail}`,
    )
  }
  return results
}

const checks = {
  stored: 'what is covered is stored',
  covered: 'what is stored is covered',
  silent: 'where nothing was traded nothing is stored',
  silentFills: 'where nothing was traded there are no fills',
  silentMinutes: 'where nothing was traded no minute has a volume',
  rollups: "hours and days of the service agree with the service's minutes",
  volumes: 'volumes of minutes agree with the fills',
}
const sound = {
  [checks.stored]: [],
  [checks.covered]: [],
  [checks.silent]: [],
  [checks.silentFills]: [],
  [checks.silentMinutes]: [],
  [checks.rollups]: [],
  [checks.volumes]: [],
}

async function sql(text: string): Promise<void> {
  await test.database.pool.query(text)
}

describe('verify', () => {
  it('finds nothing wrong with what was backfilled, compared with every fill', async () => {
    const from = now - 2 * hourMs
    for (const { category, symbol } of simulator.world.listings()) {
      const rows = simulator.world.fills(category, symbol, from, now)
      await insertFills(
        test.database.db,
        rows.map((row) => ({
          category,
          symbol,
          ts: Number(row.ts),
          execId: row.execId,
          execLinkId: null,
          side: row.side === 'buy' ? ('buy' as const) : ('sell' as const),
          price: row.price,
          size: row.size,
          isRpi: null,
          receivedAt: now,
          extra: {},
        })),
      )
      await addCoverage(test.database.db, { stream: 'fills', category, symbol, type: '', interval: '' }, [
        { from, to: now },
      ])
    }
    expect(await verified()).toEqual(sound)
  })

  it('finds a candle that is claimed and gone, one that nobody claims, and one that was changed', async () => {
    const at = new Date(Math.floor(now / hourMs) * hourMs - 10 * 60_000).toISOString()
    const candle = `category = 'SPOT' and symbol = 'BTCUSDT' and type = 'market' and interval = '1m' and open_time = '${at}'`
    await sql(`create table kept as select * from market.candles where ${candle}`)

    await sql(`delete from market.candles where ${candle}`)
    const gone = await verified()
    expect(gone[checks.stored]).toEqual(['BTCUSDT 1m 1 covered, but not stored'])
    expect(gone[checks.covered]).toEqual([])
    expect(gone[checks.rollups]).toHaveLength(1)

    await sql(`insert into market.candles select * from kept`)
    await sql(`update recorder.ledger set ranges = ranges - tstzmultirange(tstzrange('${at}', timestamptz '${at}' + interval '1 minute'))
      where verdict = 'recorded' and symbol = 'BTCUSDT' and type = 'market' and interval = '1m'`)
    expect(await verified()).toEqual({ ...sound, [checks.covered]: ['BTCUSDT 1m 1 stored, but not covered'] })

    await sql(`update recorder.ledger set ranges = ranges + tstzmultirange(tstzrange('${at}', timestamptz '${at}' + interval '1 minute'))
      where verdict = 'recorded' and symbol = 'BTCUSDT' and type = 'market' and interval = '1m'`)
    await sql(`update market.candles set base_volume = base_volume + 1 where ${candle}`)
    const changed = await verified()
    expect(changed[checks.rollups]).toEqual([
      expect.stringMatching(/^BTCUSDT 1H 1 .*: volume [\d.]+, of minutes [\d.]+$/),
    ])
    expect(changed[checks.volumes]).toEqual([
      expect.stringMatching(/^BTCUSDT 1m 1 .*: volume [\d.]+, of fills [\d.]+$/),
    ])
    await sql(`update market.candles set base_volume = base_volume - 1 where ${candle}`)
    expect(await verified()).toEqual(sound)

    await sql(`insert into recorder.ledger (stream, category, symbol, type, interval, verdict, part, ranges)
      values ('candles', 'SPOT', 'BTCUSDT', 'market', '1m', 'silent', '${at}',
        tstzmultirange(tstzrange('${at}', timestamptz '${at}' + interval '1 minute')))`)
    const silenced = await verified()
    expect(silenced[checks.silent]).toHaveLength(1)
    expect(silenced[checks.silentFills]).toEqual([
      expect.stringMatching(/^BTCUSDT 1m [1-9]\d* fills are stored, but claimed is no trade$/),
    ])
    await sql(`delete from recorder.ledger where verdict = 'silent' and part = '${at}'`)
    expect(await verified()).toEqual(sound)

    const hour = new Date(Math.floor(now / hourMs) * hourMs - hourMs).toISOString()
    await sql(`insert into recorder.ledger (stream, category, symbol, type, interval, verdict, part, ranges)
      values ('candles', 'SPOT', 'BTCUSDT', 'market', '1H', 'no trade', '${hour}',
        tstzmultirange(tstzrange('${hour}', timestamptz '${hour}' + interval '1 hour')))`)
    expect((await verified())[checks.silentMinutes]).toEqual([
      expect.stringMatching(/^BTCUSDT 1H [1-9]\d* minutes with a volume are stored, but claimed is no trade$/),
    ])
    await sql(`delete from recorder.ledger where verdict = 'no trade' and part = '${hour}'`)
    expect(await verified()).toEqual(sound)
  })

  it('finds nothing wrong with days that begin to open at another hour, and still what is gone of them', async () => {
    const days = (from: number, to: number, hour: number) =>
      Array.from({ length: to - from }, (_, index) => {
        const openTime = Date.UTC(2026, 4, from + index, hour)
        return aCandle({ category: 'SPOT', symbol: 'DAYS', type: 'market', interval: '1D', openTime })
      })
    await storeCandles(test.database.db, days(1, 4, 16))
    await storeCandles(test.database.db, days(4, 8, 0))
    expect(await verified()).toEqual(sound)
    const candle = `symbol = 'DAYS' and open_time = '2026-05-06Z'`
    await sql(`create table day as select * from market.candles where ${candle}`)
    await sql(`delete from market.candles where ${candle}`)
    expect((await verified())[checks.stored]).toEqual(['DAYS 1D 1 covered, but not stored'])
    await sql('insert into market.candles select * from day')
  })

  it('finds nothing wrong with an hour of which a minute has no volume', async () => {
    const at = new Date(Math.floor(now / hourMs) * hourMs - 20 * 60_000).toISOString()
    const candle = `category = 'SPOT' and symbol = 'BTCUSDT' and type = 'market' and interval = '1m' and open_time = '${at}'`
    await sql(`create table unknown as select base_volume, quote_turnover from market.candles where ${candle}`)
    await sql(`update market.candles set base_volume = null, quote_turnover = null where ${candle}`)
    expect((await verified())[checks.rollups]).toEqual([])
    await sql(
      `update market.candles c set (base_volume, quote_turnover) = (select base_volume, quote_turnover from unknown) where ${candle}`,
    )
    await sql('drop table unknown')
  })
})

it('finds nothing wrong with rows whose claim is final, as after an archive was adopted', async () => {
  const ofMinutes = `stream = 'candles' and symbol = 'BTCUSDT' and interval = '1m' and verdict`
  await sql(`update recorder.ledger set verdict = 'final' where ${ofMinutes} = 'recorded'`)
  try {
    expect(Object.values(await verified()).flat()).toEqual([])
  } finally {
    await sql(`update recorder.ledger set verdict = 'recorded' where ${ofMinutes} = 'final'`)
  }
})

it('counts odd rows, which are no disagreement', async () => {
  const at = `'2026-06-01 00:00Z'::timestamptz`
  await sql(`insert into market.order_books
      (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
    values ('SPOT', 'BTCUSDT', ${at}, '{2,1}', '{1,1}', '{2}', '{1}', now()),
      ('SPOT', 'BTCUSDT', ${at} + interval '1 s', '{2,1}', '{1,1}', '{3}', '{1}', now()),
      ('SPOT', 'BTCUSDT', ${at} + interval '2 s', '{}', '{}', '{3}', '{1}', now())`)
  await sql(`insert into market.tickers (category, symbol, ts, last_price, received_at)
    values ('COIN-FUTURES', 'BTCUSD_CM', ${at}, 0, now()), ('COIN-FUTURES', 'BTCUSD_CM', ${at} + interval '1 s', 1, now())`)
  const found: Record<string, unknown> = {}
  for await (const { check, disagreements, oddRows } of verify(test.database.db, () => true)) {
    if (oddRows === undefined) continue
    expect(disagreements).toEqual([])
    found[check] = oddRows
  }
  expect(found).toEqual({
    'order books that are crossed': [{ category: 'SPOT', symbol: 'BTCUSDT', count: 1 }],
    'RPI order books that are crossed': [],
    'fills at a price of 0': [],
    'candles with a price of 0': [],
    'tickers with a last price of 0': [{ category: 'COIN-FUTURES', symbol: 'BTCUSD_CM', count: 1 }],
  })
})

describe('looking for gaps', () => {
  const series = (interval: Interval): CandleSeries => ({ category: 'SPOT', symbol: 'HOLES', type: 'market', interval })
  const candle = (openTime: number) => ({
    ...series('1m'),
    openTime,
    open: '1',
    high: '1',
    low: '1',
    close: '1',
    baseVolume: '0',
    quoteTurnover: '0',
    isClosed: true,
  })

  it('finds what is missing between two covered stretches, and nothing before the first', async () => {
    const minute = Math.floor(now / 60_000) * 60_000
    await storeCandles(
      test.database.db,
      [-40, -39, -38, -20, -19].map((back) => candle(minute + back * 60_000)),
    )
    const gaps = await findGaps(test.database.db, [series('1m'), series('1H')], now, { settleMs: 5_000 })
    expect(gaps.map(({ missing }) => missing)).toEqual([
      [
        { from: minute - 37 * 60_000, to: minute - 20 * 60_000 },
        // Overdue by more than the live streams take to catch up.
        { from: minute - 18 * 60_000, to: minute },
      ],
    ])
  })
})
