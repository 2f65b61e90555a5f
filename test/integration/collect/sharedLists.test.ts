import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keepReadingLists, recordedUniverse, takeRecordedLists } from '../../../src/collect/fleet/sharedLists.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import { WholeLists } from '../../../src/collect/universe/wholeLists.js'
import { loadConfig } from '../../../src/config/resolve.js'
import type { Instrument } from '../../../src/market/instrument.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import type { Batch } from '../../../src/ledger/batch.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { aCandle, anInstrument, aTicker } from '../../support/marketRows.js'

const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/** As the recorder stores it that owns the list. */
async function record(volume24h: string, aheadMs = 0): Promise<void> {
  const now = Date.now()
  const batch: Batch = {
    stream: 'tickers',
    target: { category: 'SPOT' },
    requestTime: now,
    receivedAt: now + aheadMs,
    rows: [aTicker({ ...key, ts: now, receivedAt: now + aheadMs, volume24h, lastPrice: '2' })],
    rejected: [],
    unkept: 0,
  }
  await storeBatch(database.database.db, batch)
}

test('a recorder without a list of its own reads the tickers of another, unless it has just looked at them itself', async () => {
  const config = loadConfig({ env: {} })
  const universe = new Universe()
  universe.setInstruments('SPOT', [{ ...key, status: 'online' } as Instrument], true)
  universe.ownership = { hasInstrument: () => true, hasList: () => false, isOrphan: () => false }
  const ending = new AbortController()
  let [isLooking, rounds] = [false, 0]
  // It reads every two seconds.
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) => {
      rounds++
      if (isLooking) universe.setTickers([aTicker({ ...key, ts: Date.now(), volume24h: '7', lastPrice: '2' })])
      return systemClock.sleep(ms / 100, signal)
    },
  }
  const reading = keepReadingLists({
    db: database.database.db,
    config,
    universe,
    clock,
    serviceNow: () => Date.now(),
    logger: pino({ level: 'silent' }),
    signal: ending.signal,
  })
  const known = () => universe.tradeSign(key)?.volume24h
  await record('7')
  await expect.poll(() => Number(known())).toBe(7)
  isLooking = true
  const since = rounds
  await expect.poll(() => rounds).toBeGreaterThan(since + 2)
  await record('8')
  const recorded = rounds
  await expect.poll(() => rounds).toBeGreaterThan(recorded + 5)
  expect(Number(known())).toBe(7)
  isLooking = false
  await expect.poll(() => Number(known())).toBe(8)
  // The clocks of two recorders may be far apart.
  await record('9', 600_000)
  await expect.poll(() => Number(known())).toBe(9)
  await record('10', 600_000)
  await expect.poll(() => Number(known())).toBe(10)
  ending.abort()
  await reading
})

test('the newest tickers count, however far the clock of the database is from the service', async () => {
  const { database: other, drop } = await createTestDatabase()
  const ts = Date.now() - 5 * 86_400_000
  const of = { requestTime: ts, receivedAt: ts, rejected: [], unkept: 0 }
  const instrument = { stream: 'instruments', target: { category: 'SPOT' }, rows: [anInstrument(key)] } as const
  const ticker = aTicker({ ...key, ts, receivedAt: ts, volume24h: '7', lastPrice: '2' })
  await storeBatch(other.db, { ...of, ...instrument })
  await storeBatch(other.db, { ...of, stream: 'tickers', target: { category: 'SPOT' }, rows: [ticker] })
  await storeCandles(other.db, [aCandle({ ...key, openTime: Math.floor(ts / 60_000) * 60_000 })], [], ts)
  expect(Number((await recordedUniverse(other.db))?.tradeSign(key)?.volume24h)).toBe(7)
  await drop()
})

test('recorded lists stand for those before the first ones, but for categories and lists that are no longer asked for', async () => {
  const { database: other, drop } = await createTestDatabase()
  const at = Date.now()
  const store = (stream: 'instruments' | 'rpi_symbols', target: object, rows: readonly object[]) =>
    storeBatch(other.db, { stream, target, rows, requestTime: at, receivedAt: at, rejected: [] })
  const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  await store('instruments', { category: 'SPOT' }, [anInstrument(key)])
  await store('instruments', { category: future.category }, [anInstrument(future)])
  await store('rpi_symbols', {}, [key])
  const config = loadConfig({ env: {} })
  config.streams.instruments.categories = ['SPOT']
  const take = async () => {
    const universe = new Universe()
    const wholeLists = new WholeLists(new Incidents(pino({ level: 'silent' }), systemClock))
    // Rows that came in the meantime are newer.
    wholeLists.judge({ stream: 'instruments', target: { category: future.category }, rows: [future], ...moment })
    await takeRecordedLists(config, other.db, { universe, wholeLists })
    return universe.planned().instruments.map(({ category, hasRpi }) => `${category} ${hasRpi}`)
  }
  const moment = { requestTime: at, receivedAt: at, rejected: [] }
  expect(await take()).toEqual(['SPOT true'])
  config.streams.instruments.categories = ['SPOT', 'USDT-FUTURES']
  config.streams.rpiSymbols.enabled = false
  expect(await take()).toEqual(['SPOT false'])
  await drop()
})
