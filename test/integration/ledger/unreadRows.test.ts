import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { StreamName } from '../../../src/market/stream.js'
import { rejectedRow } from '../../../src/market/rows.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { repairCandles } from '../../../src/history/repairs.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { giveUpOldEvidence } from '../../../src/ledger/verdicts.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { at, every } from '../../support/fillPages.js'
import { aCandle } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(() =>
  test.database.pool.query('truncate market.candles, market.liquidations, market.funding_rates, recorder.ledger'),
)

const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const minutes = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m', settleMs: 5_000 }

async function store(stream: StreamName, target: object, rows: readonly object[], requested: number, broken?: unknown) {
  const rejected =
    broken === undefined ? [] : [rejectedRow({ operation: stream, parameters: {} }, 'no price', JSON.stringify(broken))]
  await storeBatch(test.database.db, { ...batchOf(stream, target, rows, at(requested)), rejected })
}

async function rangesOf(view: 'coverage' | 'gaps' | 'no_trade') {
  const { rows } = await test.database.pool.query<{ from: number; to: number }>(
    `select from_time as "from", to_time as "to" from market.${view} order by 1`,
  )
  return rows.map(({ from, to }) => [from - at(0), to - at(0)])
}

describe('a row that could not be understood, in time that is claimed,', () => {
  const showMinutes = (places: readonly number[], requestedMinute: number, broken?: number) => {
    const rows = places.map((place) => aCandle({ openTime: at(place * minuteMs) }))
    const raw = broken === undefined ? undefined : [String(at(broken)), 'x']
    return store('candles', minutes, rows, requestedMinute * minuteMs, raw)
  }

  it('denies the silence of candles and their claim, until its candle comes', async () => {
    const before = [[0, 3 * minuteMs]]
    await showMinutes([0, 2], 4)
    expect(await rangesOf('no_trade')).toEqual([[minuteMs, 2 * minuteMs]])
    expect(await rangesOf('coverage')).toEqual(before)
    const denied = async () => {
      expect(await rangesOf('no_trade')).toEqual([])
      expect(await rangesOf('coverage')).toEqual([
        [0, minuteMs],
        [2 * minuteMs, 3 * minuteMs],
      ])
      expect(await rangesOf('gaps')).toEqual([[minuteMs, 2 * minuteMs]])
    }
    await showMinutes([0, 2], 5, minuteMs)
    await denied()
    // A response that leaves it out is no better.
    await showMinutes([0, 2], 6)
    await denied()
    await showMinutes([0, 1, 2], 7)
    expect(await rangesOf('coverage')).toEqual(before)
  })

  it.each([
    ['is that of a stored one', [0, 1, 2], minuteMs],
    ['is off the grid of the others', [0, 2], 1.5 * minuteMs],
    ['lies beyond the others', [0, 2], 3 * minuteMs],
  ])('says nothing of candles where its time %s', async (_, places, broken) => {
    await showMinutes(places, 4)
    const before = [await rangesOf('coverage'), await rangesOf('no_trade')]
    await showMinutes([0, 2], 5, broken)
    expect([await rangesOf('coverage'), await rangesOf('no_trade')]).toEqual(before)
  })

  it('never makes a gap of candles lost, because the service gives their whole past', async () => {
    const { db, pool } = test.database
    const states = async () => (await listGaps(db)).map(({ state }) => state)
    await showMinutes([0, 2], 4)
    await showMinutes([0, 2], 5, minuteMs)
    await pool.query(`update recorder.ledger set noted_at = noted_at - interval '91 days' where verdict <> 'recorded'`)
    await giveUpOldEvidence(db)
    expect(await states()).toEqual(['open'])
    await showMinutes([0, 1, 2], 6)
    await repairCandles({ db, series: () => [], settleMs: 5_000, logger: createLogger('silent') }, at(hourMs))
    expect(await states()).toEqual(['repaired'])
  })

  it('leaves its millisecond of liquidations unproven, unless one is stored there', async () => {
    const rows = every(1_000, 1, 80_001).map((ms) => {
      return { ...future, ts: at(ms), receivedAt: at(ms), extra: {}, side: 'buy', price: '1', amount: '1' }
    })
    await store('liquidations', future, rows, 200_000)
    expect(await rangesOf('coverage')).toEqual([[2, 79_001]])
    await store('liquidations', future, rows, 210_000, { ts: String(at(50_001)) })
    expect(await rangesOf('coverage')).toEqual([[2, 79_001]])
    await store('liquidations', future, rows, 220_000, { ts: String(at(50_500)) })
    expect(await rangesOf('coverage')).toEqual([
      [2, 50_500],
      [50_501, 79_001],
    ])
    expect(await rangesOf('gaps')).toEqual([[50_500, 50_501]])
  })

  it('leaves its second of settled rates unproven, at its nominal time', async () => {
    const base = Math.ceil(at(0) / hourMs) * hourMs - at(0)
    const rows = [32, 24, 16, 8, 0].map((hour) => {
      return {
        ...future,
        ts: at(base + hour * hourMs),
        receivedAt: at(0),
        extra: {},
        fundingRate: '0.0001',
        intervalHours: null,
      }
    })
    await store('funding_rates', future, rows, base + 33 * hourMs)
    const [[from = 0, to = 0] = []] = await rangesOf('coverage')
    const settled = base + 20 * hourMs
    await store('funding_rates', future, rows, base + 34 * hourMs, { fundingRateTimestamp: String(at(settled + 7)) })
    expect(await rangesOf('coverage')).toEqual([
      [from, settled],
      [settled + 1_000, to],
    ])
    expect(await rangesOf('gaps')).toEqual([[settled, settled + 1_000]])
  })
})
