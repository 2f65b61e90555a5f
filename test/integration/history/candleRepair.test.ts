import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { repairCandles } from '../../../src/history/repairs.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { type CandleSeries, intervalMs } from '../../../src/market/candle.js'
import { settleGaps } from '../../../src/ledger/missing.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { candleStream } from '../../../src/db/series.js'
import {
  claims,
  clientOf,
  repairInVain,
  settleMs,
  startWorker,
  storedCandles,
  trueCandles,
  wantedRanges,
} from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { batchOf } from '../../support/batches.js'
import { aCandle, closedCandle } from '../../support/marketRows.js'
import { addCoverage } from '../../support/coverage.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const series: CandleSeries = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' }

let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
  simulator = await startSimulator({
    limits: { enforce: false },
    customInstruments: [
      { category: 'SPOT', symbol: 'BTCUSDT', launchTime: Date.now() - 100 * 24 * hourMs, fillsPerHour: 60 },
    ],
  })
})
afterAll(async () => {
  await simulator.close()
  await test.drop()
})

describe('the daemon', () => {
  it('finds what an outage left out of the live candles, and has it filled in the class for repairs', async () => {
    const { db } = test.database
    const now = Date.now()
    const minute = Math.floor(now / minuteMs) * minuteMs
    const recorded = { from: minute - 30 * hourMs, to: minute - minuteMs }
    const outage = { from: minute - 20 * hourMs, to: minute - 18 * hourMs }
    const live = trueCandles(simulator, series, recorded, now)
      .filter(([openTime]) => Number(openTime) < outage.from || Number(openTime) >= outage.to)
      .map((row) => closedCandle(series, row))
    await db.transaction().execute((trx) => storeCandles(trx, live))

    const priorities = new Set<string>()
    const client = clientOf(simulator.url, 10, { onRequest: ({ priority }) => void priorities.add(priority) })
    const logger = createLogger('silent')
    const options = { db, settleMs, logger }
    const worker = startWorker(test, client)
    try {
      await repairCandles({ ...options, series: () => [series] }, Date.now())
      await expect.poll(async () => (await listGaps(db)).map(({ state }) => state)).toEqual(['repaired'])
    } finally {
      await worker.stop()
      client.close()
    }
    expect([...priorities]).toEqual(['repair'])
    expect(await listGaps(db)).toMatchObject([{ range: outage, stream: 'candles' }])
    const inRange = (await storedCandles(test, series)).filter(([openTime]) => Number(openTime) < recorded.to)
    expect(inRange).toEqual(trueCandles(simulator, series, recorded, now))
    const { allowed, claimed } = await claims(test, series)
    expect(claimed).toEqual(allowed)
  })
  it('has a new outage filled at once while an old hole waits that no repair could fill', async () => {
    const { db } = test.database
    const other: CandleSeries = { ...series, symbol: 'ETHUSDT' }
    const minute = Math.floor(Date.now() / minuteMs) * minuteMs
    const hoursAgo = (from: number, to: number) => ({ from: minute - from * hourMs, to: minute - to * hourMs })
    const [hole, outage] = [hoursAgo(20, 18), hoursAgo(3, 2)]
    const recorded = [hoursAgo(30, 20), hoursAgo(18, 3), hoursAgo(2, 0)]
    await addCoverage(db, candleStream(other), recorded)
    await repairInVain(db, candleStream(other), [hole], 4)
    const options = { db, settleMs, logger: createLogger('silent') }
    await repairCandles({ ...options, series: () => [other] }, Date.now())
    expect(await wantedRanges(db, 'ETHUSDT')).toEqual([outage])
    const gaps = await listGaps(db, { isSymbol: (symbol) => symbol === 'ETHUSDT' })
    expect(gaps).toMatchObject([{ range: outage, state: 'open' }])
  })

  it('has an outage of eight days filled, and notes one of sixty days that a backfill may fill', async () => {
    const { db } = test.database
    const away: CandleSeries = { ...series, symbol: 'AWAYUSDT' }
    const minute = Math.floor(Date.now() / minuteMs) * minuteMs
    const daysAgo = (from: number, to: number) => ({ from: minute - from * 24 * hourMs, to: minute - to * 24 * hourMs })
    const [long, outage] = [daysAgo(90, 30.1), daysAgo(9, 0.5)]
    await addCoverage(db, candleStream(away), [daysAgo(91, 90), daysAgo(30.1, 9), daysAgo(0.5, 0)])
    const options = { db, settleMs, serviceNow: () => Date.now(), logger: createLogger('silent') }
    for (let look = 0; look < 2; look++) await repairCandles({ ...options, series: () => [away] }, Date.now())
    expect(await wantedRanges(db, 'AWAYUSDT')).toEqual([outage])
    const gaps = await listGaps(db, { isSymbol: (symbol) => symbol === 'AWAYUSDT' })
    expect(gaps).toMatchObject([
      { range: long, state: 'open', reason: expect.stringContaining('a backfill of this time fills it') as string },
      { range: outage, state: 'open' },
    ])
  })
})

describe('a candle that still forms', () => {
  // Days were seen to open at 16:00 UTC, weeks on Sunday at 16:00.
  it.each([
    ['mark', '1D', Date.UTC(2026, 10, 2, 16), 12],
    ['index', '12H', Date.UTC(2026, 10, 2, 16), 9],
    ['mark', '1W', Date.UTC(2026, 9, 4, 16), 100],
    ['market', '1D', Date.UTC(2026, 10, 2, 16), 12],
    ['mark', '1H', Date.UTC(2026, 10, 2, 16), 0.5],
  ] as const)(
    'of %s and %s is in no gap after an outage, and is repaired by nothing',
    async (type, interval, first, hours) => {
      const { db } = test.database
      const lengthMs = intervalMs[interval]
      const own = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', type, interval } as const
      const closes = (place: number) => first + (place + 1) * lengthMs
      /** A live response with candles up to a place, of which the last one forms. */
      const respond = (from: number, to: number, at: number) => {
        const rows = Array.from({ length: to - from + 1 }, (_, index) =>
          aCandle({ ...own, openTime: first + (from + index) * lengthMs, isClosed: from + index < to }),
        )
        return storeBatch(db, batchOf('candles', { ...own, settleMs, limit: 10 }, rows, at))
      }
      const gapsOf = async () => (await listGaps(db)).filter((gap) => gap.type === type && gap.interval === interval)
      const look = (at: number) =>
        repairCandles({ db, series: () => [own], settleMs, logger: createLogger('silent') }, at)
      await respond(0, 5, closes(4) + hours * hourMs)
      await look(closes(4) + hours * hourMs + minuteMs)
      expect(await gapsOf()).toEqual([])
      // It is away while a candle closes, and looks before its first response.
      await look(closes(5) + hours * hourMs)
      expect(await gapsOf()).toMatchObject([{ range: { from: closes(4), to: closes(5) } }])
      await respond(5, 6, closes(5) + hours * hourMs + minuteMs)
      await respond(6, 7, closes(6) + minuteMs)
      await settleGaps(db, own)
      expect((await gapsOf()).filter(({ range }) => range.to > closes(5))).toEqual([])
    },
  )
})
