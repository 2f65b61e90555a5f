import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { addEmptyRanges } from '../../../src/ledger/missing.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { concludeReview } from '../../../src/ledger/reviews.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { verify } from '../../../src/ledger/verify.js'
import type { Candle } from '../../../src/market/candle.js'
import { addMs, dayMs, hourMs, minuteMs, serviceMs } from '../../../src/market/values.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, anInstrument } from '../../support/marketRows.js'

const base = serviceMs(Date.UTC(2026, 5, 15, 12))
const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const series = { ...key, type: 'market', interval: '1m' } as const

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(() => test.database.pool.query('truncate market.candles, market.fills, recorder.ledger'))

const price = { open: '10', high: '10', low: '10', close: '10', baseVolume: '1' }
const minuteCandle = (minute: number, fields: Partial<Candle> = {}) =>
  aCandle({ ...price, openTime: addMs(base, minute * minuteMs), ...fields })

/** A live response with the candles of these minutes. */
async function showMinutes(minutes: readonly number[], atMinute: number, forming: readonly Candle[] = []) {
  const requestTime = serviceMs(base + atMinute * minuteMs + 6_000)
  const rows = [...minutes.map((minute) => minuteCandle(minute)), ...forming]
  const target = { ...series, settleMs: 5_000, limit: 100 }
  await storeBatch(test.database.db, {
    stream: 'candles',
    target,
    requestTime,
    receivedAt: Number(requestTime),
    rows,
    rejected: [],
  })
}

const fillsAt = (seconds: readonly number[]) =>
  seconds.map((s) => aFill({ execId: String(s), ts: base + s * 1_000, price: '10', size: '1' }))

/** Ranges of a view, in minutes. */
async function minutesOf(view: string, where = "stream = 'candles'") {
  const { rows } = await test.database.pool.query<{ from: number; to: number }>(
    `select from_time as "from", to_time as "to" from market.${view} where ${where} order by 1`,
  )
  return rows.map(({ from, to }) => [(from - base) / minuteMs, (to - base) / minuteMs])
}
const silence = () => minutesOf('no_trade', 'true')

async function expectNoDisagreement() {
  for await (const { check, disagreements } of verify(test.database.db, () => true)) {
    expect({ check, disagreements }).toEqual({ check, disagreements: [] })
  }
}

describe('silence', () => {
  it('is shown by no response that leaves out a stored candle', async () => {
    await showMinutes([0, 1, 2], 3)
    await showMinutes([0, 6, 8], 9)
    expect(await silence()).toEqual([])
    expect(await minutesOf('coverage')).toEqual([
      [0, 3],
      [6, 7],
      [8, 9],
    ])
    await showMinutes([0, 1, 2, 6, 8], 9)
    expect(await silence()).toEqual([
      [3, 6],
      [7, 8],
    ])
  })

  it.each([
    ['7', []],
    ['0', [[1, 2]]],
  ])('is shown where a forming candle is left out later only if it had no volume: %s', async (baseVolume, silent) => {
    await showMinutes([0], 1, [minuteCandle(1, { baseVolume, isClosed: false })])
    await showMinutes([0, 2], 3)
    expect(await silence()).toEqual(silent)
  })

  it('is not confirmed by a review that leaves out a stored candle', async () => {
    const { db } = test.database
    await showMinutes([0, 3, 4, 7], 8)
    const seen = [{ from: base + minuteMs, to: base + 7 * minuteMs }]
    const later = serviceMs(base + 2 * dayMs)
    await concludeReview(db, series, { ranges: seen, nextTo: null }, seen, later)
    expect(await minutesOf('no_trade', 'is_confirmed')).toEqual([])
  })

  it('is confirmed by a look a day later, and by none before', async () => {
    const { db } = test.database
    await showMinutes([0, 3], 4)
    const seen = [{ from: base + minuteMs, to: base + 3 * minuteMs }]
    const review = (at: number) => concludeReview(db, series, { ranges: seen, nextTo: null }, seen, serviceMs(at))
    await review(base + 20 * minuteMs)
    await review(base + 20 * hourMs)
    expect(await minutesOf('no_trade', 'is_confirmed')).toEqual([])
    await review(base + 25 * hourMs)
    expect(await minutesOf('no_trade', 'is_confirmed')).toEqual([[1, 3]])
  })

  it('is not confirmed sooner where an older response shows silence of the same day after it', async () => {
    const { db } = test.database
    await showMinutes([100, 103], 1_900)
    await showMinutes([0, 3], 4)
    const seen = [1, 101].map((minute) => ({ from: base + minute * minuteMs, to: base + (minute + 2) * minuteMs }))
    const review = (atMinute: number) =>
      concludeReview(db, series, { ranges: seen, nextTo: null }, seen, serviceMs(base + atMinute * minuteMs))
    await review(1_910)
    expect(await minutesOf('no_trade', 'is_confirmed')).toEqual([])
    await review(1_900 + 25 * 60)
    expect(await minutesOf('no_trade', 'is_confirmed')).toEqual([
      [1, 3],
      [101, 103],
    ])
  })

  const stored = [200, 150, 130, 100, 70]
  const ways = {
    live: async () => {
      const at = serviceMs(base + 5 * minuteMs)
      const batch = { target: key, requestTime: at, receivedAt: Number(at), rows: fillsAt(stored), rejected: [] }
      await storeBatch(test.database.db, { stream: 'fills', ...batch })
    },
    history: async () => {
      await storePastFills(test.database.db, key, {
        asked: { from: base, to: serviceMs(base + 5 * minuteMs) },
        fills: fillsAt(stored),
        other: null,
        reachesTo: base,
        largest: 1_000,
        disorderMs: 0,
        requestTime: serviceMs(base + hourMs),
      })
    },
  }
  it.each(Object.keys(ways) as (keyof typeof ways)[])(
    'ends where fills come from %s, and its candles are a gap',
    async (way) => {
      await showMinutes([0, 3, 5], 6)
      await ways[way]()
      expect(await silence()).toEqual([[4, 5]])
      expect(await minutesOf('coverage')).toEqual([
        [0, 1],
        [3, 6],
      ])
      expect(await minutesOf('gaps')).toEqual([[1, 3]])
      await expectNoDisagreement()
      await showMinutes([0, 3, 5], 6)
      expect(await silence()).toEqual([[4, 5]])
      await showMinutes([0, 1, 2, 3, 5], 6)
      expect(await minutesOf('coverage')).toEqual([[0, 6]])
    },
  )

  it('ends in candles of all intervals', async () => {
    const { db } = test.database
    const hours = [0, 3].map((hour) => aCandle({ ...series, interval: '1H', openTime: base + hour * hourMs }))
    const at = serviceMs(base + 5 * hourMs)
    const target = { ...series, interval: '1H', settleMs: 5_000, limit: 100 }
    await storeBatch(db, {
      stream: 'candles',
      target,
      requestTime: at,
      receivedAt: Number(at),
      rows: hours,
      rejected: [],
    })
    expect(await silence()).toEqual([[60, 180]])
    const rows = fillsAt([0, 3_600, 7_300])
    await storeBatch(db, {
      stream: 'fills',
      target: key,
      requestTime: at,
      receivedAt: Number(at),
      rows,
      rejected: [],
    })
    expect(await silence()).toEqual([])
    expect(await minutesOf('gaps')).toEqual([[60, 180]])
  })
})

it.each([
  ['what its last response left out is a gap', 9, [[3, 9]]],
  ['a candle that still formed is none', 3, []],
])('of candles that were not shown when the instrument left the list, %s', async (_, atMinute, gaps) => {
  const { db } = test.database
  await test.database.pool.query('truncate market.instruments, market.instrument_history')
  const list = (symbols: readonly string[], minute: number) =>
    recordInstruments(
      db,
      'SPOT',
      symbols.map((symbol) => anInstrument({ symbol })),
      addMs(base, minute * minuteMs),
      {
        complete: true,
      },
    )
  await list(['BTCUSDT', 'ETHUSDT'], 0)
  await showMinutes([0, 1, 2], atMinute)
  await list(['ETHUSDT'], atMinute + 1)
  expect(await minutesOf('gaps', "reason like 'the instrument left the list%'")).toEqual(gaps)
})

const older = {
  'a live response': () => showMinutes([5], 22),
  'a page of the past': () => storeCandles(test.database.db, [minuteCandle(5)]),
  'many pages': () => {
    const minutes = Array.from({ length: 800 }, (_, place) => 5 - place)
    return storeCandles(
      test.database.db,
      minutes.map((minute) => minuteCandle(minute)),
    )
  },
}
it.each(Object.keys(older) as (keyof typeof older)[])(
  'a series that has older candles by %s began earlier',
  async (way) => {
    const { db, pool } = test.database
    await showMinutes([20, 21], 22)
    await addEmptyRanges(db, series, [{ from: addMs(base, 10 * minuteMs), to: addMs(base, 20 * minuteMs) }])
    await showMinutes([20, 21, 22], 23)
    const beginning = () => pool.query("select from recorder.ledger where verdict = 'before the beginning'")
    expect((await beginning()).rows).toHaveLength(1)
    await older[way]()
    expect((await beginning()).rows).toEqual([])
    expect(await minutesOf('gaps')).toEqual([[6, 20]])
  },
)
