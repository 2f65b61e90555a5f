import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitBatch } from '../../../src/ledger/batch/storeBatch.js'
import type { Batch } from '../../../src/ledger/batch/batch.js'
import type { StreamName } from '../../../src/market/stream.js'
import { mendClock } from '../../../src/ledger/live/mend.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, anInstrument, aTicker, someTime } from '../../support/marketRows.js'

const hourMs = 3_600_000
const year9999 = Date.UTC(9999, 0, 1)
const possible = { earliest: Date.UTC(2010, 0, 1), latest: someTime + 10 * hourMs }

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(async () => created.drop())

const spot = { category: 'SPOT' as const, symbol: 'BTCUSDT' }
const store = (
  stream: StreamName,
  target: unknown,
  rows: readonly unknown[],
  requestTime: number,
  receivedAt = requestTime,
) =>
  commitBatch(created.database.db, {
    stream,
    target,
    requestTime,
    receivedAt,
    rows,
    rejected: [],
    proven: [],
    gaps: [],
    isPart: false,
  } satisfies Batch)

const query = async (text: string) => (await created.database.pool.query<Record<string, unknown>>(text)).rows
const fill = (index: number, ts = someTime + index * 1_000) =>
  aFill({ execId: `${index}`, ts, receivedAt: someTime + index * 1_000 + 100 })

/** Everything that the harm of a wrong clock can be seen in. */
const everything = async () => ({
  tickers: await query('select ts, last_price from market.tickers order by ts'),
  fills: await query('select ts, exec_id from market.fills order by ts'),
  candles: await query('select open_time, is_closed from market.candles order by open_time'),
  instruments: await query('select symbol, status, updated_at, disappeared_at from market.instruments order by symbol'),
  history: await query('select symbol, status, valid_from, valid_to from market.instrument_history order by 1, 3'),
  rpi: await query('select symbol, valid_from, valid_to from market.rpi_symbols order by 1, 2'),
  coverage: await query('select stream, ranges::text from recorder.coverage order by 1'),
  gaps: await query('select stream, range::text, state from recorder.gap order by 1, 2'),
  rejected: await query('select operation, reason from recorder.rejected_row order by 1'),
})

test('takes out what an answer with a wrong clock has left, and what follows is recorded as ever', async () => {
  const { db } = created.database
  const instrument = anInstrument({ ...spot, status: 'online' })
  await store(
    'instruments',
    { category: 'SPOT' },
    [instrument, anInstrument({ category: 'SPOT', symbol: 'ETHUSDT' })],
    someTime,
  )
  await store('rpi_symbols', {}, [spot], someTime)
  await store('tickers', { category: 'SPOT' }, [aTicker({ ...spot, ts: someTime })], someTime)
  await store('fills', spot, [fill(1), fill(2)], someTime + 2_500)
  await store('candles', { ...spot, type: 'market', interval: '1m' }, [aCandle()], someTime + 90_000)
  const before = await everything()

  // Of one moment, with a wrong clock, and after it honest ones that are taken for old.
  const at = someTime + 3_100
  await store('instruments', { category: 'SPOT' }, [{ ...instrument, status: 'offline' }], year9999, at)
  await store('rpi_symbols', {}, [{ ...spot, symbol: 'FAKE' }], year9999, at)
  await store('tickers', { category: 'SPOT' }, [aTicker({ ...spot, ts: year9999, receivedAt: at })], year9999, at)
  await store('fills', spot, [fill(2), { ...fill(3), execId: 'fake', ts: year9999, receivedAt: at }], year9999, at)
  await store('candles', { ...spot, type: 'market', interval: '1m' }, [aCandle({ openTime: year9999 })], year9999, at)
  await store(
    'fills',
    { ...spot, symbol: 'ETHUSDT' },
    [aFill({ symbol: 'ETHUSDT', ts: 5, receivedAt: at })],
    someTime,
    at,
  )
  const poisoned = await everything()
  expect(poisoned).not.toEqual(before)

  const found = await mendClock(db, possible, false)
  expect(await everything()).toEqual(poisoned)
  expect(await mendClock(db, possible, true)).toEqual(found)
  const mended = await everything()
  expect(mended).toEqual({ ...before, rejected: mended.rejected })
  expect(mended.rejected).toEqual(
    ['candles', 'fills', 'fills', 'tickers'].map((operation) => ({
      operation,
      reason: 'its time cannot be: taken out by mend',
    })),
  )
  expect(await mendClock(db, possible, true)).toEqual([])

  // What came in between is not claimed: whether it was all is not known.
  await store(
    'fills',
    spot,
    Array.from({ length: 100 }, (_, i) => fill(500 + i)),
    someTime + 600_000,
  )
  expect(await query(`select state, upper(range) as until from recorder.gap where stream = 'fills'`)).toEqual([
    { state: 'lost', until: someTime + 500_001 },
  ])
  await store('instruments', { category: 'SPOT' }, [{ ...instrument, status: 'limit_open' }], someTime + hourMs)
  expect(await query(`select status from market.instruments where symbol = 'BTCUSDT'`)).toEqual([
    { status: 'limit_open' },
  ])
})

test('a candle that was closed before its time is open again, whatever its interval', async () => {
  const { latest } = possible
  const stored = [
    aCandle({ interval: '3D', openTime: latest - 60 * hourMs }),
    aCandle({ interval: '1Wutc', openTime: latest - 160 * hourMs }),
    aCandle({ interval: '6Hutc', openTime: latest - 5 * hourMs }),
    aCandle({ interval: '3D', openTime: latest - 72 * hourMs }),
    aCandle({ interval: '6Hutc', openTime: latest - 12 * hourMs }),
  ]
  for (const candle of stored)
    await store('candles', { ...spot, type: 'market', interval: candle.interval }, [candle], year9999, latest)
  await mendClock(created.database.db, possible, true)
  expect(
    await query(`
      select interval, (extract(epoch from to_timestamp(${latest / 1000}) - open_time) / 3600)::int as hours, is_closed
      from market.candles where interval <> '1m' order by is_closed, interval, hours`),
  ).toEqual([
    { interval: '3D', hours: 60, is_closed: false },
    { interval: '6Hutc', hours: 5, is_closed: false },
    { interval: '1Wutc', hours: 160, is_closed: false },
    { interval: '3D', hours: 72, is_closed: true },
    { interval: '6Hutc', hours: 12, is_closed: true },
  ])
})
