import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CandleSchedule } from '../../../../src/collect/schedule/candleSchedule.js'
import { type Candle, type CandleSeries, intervalMs, intervals } from '../../../../src/market/candle.js'
import type { TradeSign } from '../../../../src/market/rows.js'

test('a response reaches back to every candle that had not settled when the last one came', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...intervals),
      fc.integer({ min: 0, max: 600_000 }),
      fc.integer({ min: 0, max: 5_000_000 }),
      fc.integer({ min: 0, max: 86_400_000 }),
      (interval, settleMs, sinceMs, phaseMs) => {
        const lengthMs = intervalMs[interval]
        const before = Date.UTC(2026, 0, 5) + phaseMs
        const now = before + sinceMs
        const limit = new CandleSchedule(settleMs).candlesSince(before, now, interval)
        // The newest candle counts, whether it has begun to trade or not.
        const oldestShown = Math.floor(now / lengthMs) * lengthMs - (limit - 1) * lengthMs
        const firstUnsettled = Math.floor((before - settleMs) / lengthMs) * lengthMs
        expect(oldestShown <= firstUnsettled || limit === 1000).toBe(true)
      },
    ),
  )
})

const minuteMs = 60_000
const start = Date.UTC(2026, 0, 5, 12)
const series: CandleSeries = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' }
const at = (minutes: number) => ({ wall: start + minutes * minuteMs, ms: minutes * minuteMs })
const sign = (volume24h: string): TradeSign => ({ ts: start, volume24h, lastPrice: '1' })

function candle(minutes: number, baseVolume: string): Candle {
  const prices = { open: '1', high: '1', low: '1', close: '1' }
  return { ...series, ...prices, openTime: at(minutes).wall, baseVolume, quoteTurnover: '0', isClosed: true }
}

/** A schedule of one series that has had a trade at first, and then so many responses that bring nothing. */
function scheduleAfter(fruitless: number): CandleSchedule<CandleSeries> {
  const schedule = new CandleSchedule<CandleSeries>(0)
  schedule.retarget([series], 0)
  for (let response = 0; response <= fruitless; response++) {
    schedule.responded(series, {
      rows: [candle(-1, '5')],
      requestTime: at(0).wall,
      received: at(0),
      isClaimed: false,
      sign: sign('1'),
    })
  }
  return schedule
}

test('a series is due at every close while responses bring trades, and half as often after each that does not', () => {
  const isDue = (fruitless: number, minutes: number) =>
    scheduleAfter(fruitless).due('1m', at(minutes), () => sign('1')).length > 0
  expect(isDue(0, 1)).toBe(true)
  expect([1, 2].map((minutes) => isDue(1, minutes))).toEqual([false, true])
  expect([3, 4].map((minutes) => isDue(2, minutes))).toEqual([false, true])
  // However long there was no trade.
  expect([7, 8].map((minutes) => isDue(20, minutes))).toEqual([false, true])
})

test('a ticker that shows a trade brings the next request forward, one that shows none does not', () => {
  const due = (volume: string) => scheduleAfter(3).due('1m', at(1), () => sign(volume))
  expect(due('2')).toEqual([{ target: series, isClaimed: true }])
  expect(due('1')).toEqual([])
})

test('an interval that the instrument does not have is due again a day later, whatever becomes of the wall clock', () => {
  for (const setMs of [0, -400 * 86_400_000, 400 * 86_400_000]) {
    const schedule = new CandleSchedule<CandleSeries>(0)
    schedule.retarget([series], 0)
    schedule.refused(series, 0)
    const isDue = (minutes: number) => schedule.due('1m', { wall: start + setMs, ms: minutes * minuteMs }, () => null)
    expect(isDue(24 * 60 - 1)).toEqual([])
    expect(isDue(24 * 60)).toHaveLength(1)
  }
})

test('an interval that the instrument has had is asked for again soon after a refusal, and less and less after more', () => {
  const schedule = scheduleAfter(0)
  const asked: number[] = []
  for (let minutes = 1; minutes <= 5 * 24 * 60; minutes++) {
    if (schedule.due('1m', at(minutes), () => null).length === 0) continue
    asked.push(minutes)
    schedule.refused(series, at(minutes).ms)
  }
  const gaps = asked.slice(1).map((minutes, index) => minutes - (asked[index] ?? 0))
  expect(gaps.slice(0, 4)).toEqual([2, 4, 8, 16])
  expect(Math.max(...gaps)).toBe(60)
  const last = (asked.at(-1) ?? 0) + 60
  schedule.responded(series, {
    rows: [candle(last, '1')],
    requestTime: at(last).wall,
    received: at(last),
    isClaimed: false,
    sign: null,
  })
  schedule.refused(series, at(last + 1).ms)
  expect(schedule.due('1m', at(last + 3), () => null)).toHaveLength(1)
})

test('what is known of a series goes with it', () => {
  const schedule = scheduleAfter(0)
  expect(schedule.limitFor(series, at(1).wall)).toBe(13)
  expect(schedule.retarget([], 0)).toEqual({ added: [], removed: [series] })
  expect(schedule.retarget([series], 0)).toEqual({ added: [series], removed: [] })
  expect(schedule.limitFor(series, at(1).wall)).toBe(1000)
})

test('a series without a response in due time is late, one that is asked for less often is quiet', () => {
  expect(scheduleAfter(0).counts(at(1).ms)).toEqual({ quiet: 0, late: 0 })
  expect(scheduleAfter(0).counts(at(3).ms)).toEqual({ quiet: 0, late: 1 })
  expect(scheduleAfter(3).counts(at(3).ms)).toEqual({ quiet: 1, late: 0 })
})

describe('series that only fail', () => {
  const others = Array.from({ length: 9 }, (_, index) => ({ ...series, symbol: `LIVE${index}USDT` }))

  let late = 0
  /** Runs so many minutes; returns how often the series was requested in each hour. */
  function hours(minutes: number, fails: (target: CandleSeries, minute: number) => boolean): number[] {
    const schedule = new CandleSchedule<CandleSeries>(0)
    schedule.retarget([series, ...others], at(0).ms)
    const counts: number[] = []
    for (let minute = 0; minute < minutes; minute++) {
      for (const { target } of schedule.due('1m', at(minute), () => null)) {
        if (target === series) counts[Math.floor(minute / 60)] = (counts[Math.floor(minute / 60)] ?? 0) + 1
        if (fails(target, minute)) schedule.failed(target, at(minute).ms)
        else
          schedule.responded(target, {
            rows: [candle(minute, '5')],
            requestTime: at(minute).wall,
            received: at(minute),
            isClaimed: false,
            sign: null,
          })
      }
    }
    late = schedule.counts(at(minutes).ms).late
    return counts
  }

  test('are requested less and less often while others have responses', () => {
    const [first = 0, , , fourth = 0] = hours(240, (target) => target === series)
    expect(first).toBeGreaterThan(3)
    expect(first).toBeLessThan(20)
    expect(fourth).toBeLessThanOrEqual(3)
    expect(late).toBe(0)
  })

  test('are requested at every close while all fail, and after the first response', () => {
    expect(hours(59, () => true)).toEqual([59])
    expect(late).toBe(10)
    expect(hours(240, (target, minute) => target === series && minute < 30)[3]).toBe(60)
  })
})
