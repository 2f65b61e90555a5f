import { describe, expect, test } from 'vitest'
import { plainQuirks } from '../../../support/quirks.js'
import { createCommonFactor } from '../../../../src/simulator/world/prices.js'
import type { FillProcess } from '../../../../src/simulator/world/marketFills.js'
import { createFillProcess } from '../../../../src/simulator/world/market.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const minuteMs = 60_000
const dayMs = 86_400_000
/** A Tuesday, when all of the openings happen. */
const tuesday = Date.UTC(2026, 2, 3)
const afternoon = tuesday + 17 * 60 * minuteMs

/** Instruments as busy as those whose tapes were measured, and quieter ones. */
const ratesPerSecond = [60, 40, 30, 20, 10, 5, 1, 0.2]
const market = (seed = 1): FillProcess[] => {
  const common = createCommonFactor(seed)
  return ratesPerSecond.map((perSecond, i) =>
    createFillProcess(seed * 1_000 + i, { perHour: perSecond * 3_600, meanSizeLots: 5_000, burstiness: 0.5 }, common),
  )
}

function timesOf(fills: FillProcess, from: number, to: number): number[] {
  const first = fills.countBefore(from)
  return Array.from({ length: fills.countBefore(to) - first }, (_, i) => fills.timeOf(first + i))
}

function counts(fills: FillProcess, from: number, stepMs: number, steps: number): number[] {
  const before = Array.from({ length: steps + 1 }, (_, i) => fills.countBefore(from + i * stepMs))
  return before.slice(1).map((count, i) => count - (before[i] ?? 0))
}

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? Number.NaN
}

/** Variance over mean: 1 when fills come independently of each other. */
function dispersion(values: readonly number[]): number {
  const average = mean(values)
  return mean(values.map((value) => (value - average) ** 2)) / average
}

function correlation(a: readonly number[], b: readonly number[]): number {
  const [meanA, meanB] = [mean(a), mean(b)]
  const covariance = mean(a.map((value, i) => (value - meanA) * ((b[i] ?? 0) - meanB)))
  const spread = (values: readonly number[], average: number): number =>
    Math.sqrt(mean(values.map((value) => (value - average) ** 2)))
  return covariance / (spread(a, meanA) * spread(b, meanB))
}

function maxWithin(times: readonly number[], ms: number): number {
  let most = 0
  for (let from = 0, to = 0; to < times.length; to++) {
    while ((times[to] ?? 0) - (times[from] ?? 0) >= ms) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}

/** The bounds are those of measured tapes, widened where a short window differs much from the next. */
describe('flow of fills', () => {
  test('orders have several fills in one millisecond: most have one, few have very many', () => {
    for (const fills of market().slice(0, 6)) {
      const times = timesOf(fills, afternoon, afternoon + 6 * minuteMs)
      const perMs = new Map<number, number>()
      for (const ts of times) perMs.set(ts, (perMs.get(ts) ?? 0) + 1)
      const sizes = [...perMs.values()].toSorted((a, b) => b - a)
      const shared = sizes.filter((size) => size > 1).reduce((a, b) => a + b, 0) / times.length
      expect(shared).toBeGreaterThan(0.65)
      expect(shared).toBeLessThan(0.93)
      expect(median(sizes)).toBeLessThanOrEqual(2)
      const largest = sizes.slice(0, Math.ceil(sizes.length / 100)).reduce((a, b) => a + b, 0) / times.length
      expect(largest).toBeGreaterThan(0.06)
      expect(largest).toBeLessThan(0.45)
    }
  })

  test('fills are far more uneven than by chance, at every scale', () => {
    for (const fills of market().slice(0, 6)) {
      const at = (stepMs: number, steps: number): number => dispersion(counts(fills, afternoon, stepMs, steps))
      expect(at(100, 3_600)).toBeGreaterThan(6)
      expect(at(1_000, 360)).toBeGreaterThan(8)
      expect(at(10_000, 36)).toBeGreaterThan(10)
      expect(at(minuteMs, 60)).toBeGreaterThan(12)
      expect(at(100, 3_600)).toBeLessThan(400)
    }
  })

  test('within an hour, hundreds of fills come within 55 ms', () => {
    const most = [1, 2, 3].map((seed) => {
      const [fills] = market(seed)
      return fills === undefined ? 0 : maxWithin(timesOf(fills, afternoon, afternoon + 60 * minuteMs), 55)
    })
    expect(Math.max(...most)).toBeGreaterThan(600)
    expect(Math.min(...most)).toBeGreaterThan(200)
  })

  test('sizes have a heavy tail: the mean is several times the median, one in a hundred makes up a sixth or more', () => {
    const shares = market().map((fills) => {
      const first = fills.countBefore(afternoon)
      const sizes = Array.from({ length: 20_000 }, (_, i) => fills.sizeOf(first + i)).toSorted((a, b) => b - a)
      expect(mean(sizes) / median(sizes)).toBeGreaterThan(2.5)
      expect(mean(sizes) / median(sizes)).toBeLessThan(45)
      expect(Math.abs(mean(sizes) / 5_000 - 1)).toBeLessThan(0.1)
      return sizes.slice(0, 200).reduce((a, b) => a + b, 0) / sizes.reduce((a, b) => a + b, 0)
    })
    expect(Math.min(...shares)).toBeGreaterThan(0.12)
    expect(Math.max(...shares)).toBeLessThan(0.4)
  })

  test('instruments are busy at the same time, by minutes and by ten seconds', () => {
    const all = market().slice(0, 6)
    const pairs = (stepMs: number, steps: number): number[] => {
      const series = all.map((fills) => counts(fills, afternoon, stepMs, steps))
      return series.flatMap((a, i) => series.slice(0, i).map((b) => correlation(a, b)))
    }
    expect(median(pairs(minuteMs, 240))).toBeGreaterThan(0.3)
    expect(median(pairs(10_000, 360))).toBeGreaterThan(0.2)
  })

  test('rates change tenfold at an opening, for everybody', () => {
    const opening = tuesday + 13.5 * 60 * minuteMs
    const ratios = [1, 2, 3, 4, 5].flatMap((seed) =>
      market(seed)
        .slice(0, 6)
        .map((fills) => {
          const before = fills.countBefore(opening) - fills.countBefore(opening - 20 * minuteMs)
          const after = fills.countBefore(opening + 2 * minuteMs) - fills.countBefore(opening)
          return after / 2 / (before / 20)
        }),
    )
    expect(median(ratios)).toBeGreaterThan(6)
    expect(ratios.filter((ratio) => ratio > 3).length / ratios.length).toBeGreaterThan(0.8)
  })

  test('some days have a minute in which everything trades at ten times its rate or more, at no fixed hour', () => {
    const fills = createFillProcess(5, { perHour: 36_000, meanSizeLots: 10, burstiness: 0.1 }, createCommonFactor(9))
    const crashes: number[] = []
    for (let day = 0; day < 40; day++) {
      const perMinute = counts(fills, tuesday + day * dayMs, minuteMs, 1_440)
      for (let minute = 20; minute < 1_440; minute++) {
        const usual = median(perMinute.slice(minute - 20, minute))
        const isOpening = [480, 810, 960].some((at) => minute >= at && minute < at + 30)
        if (!isOpening && (perMinute[minute] ?? 0) > 9 * usual) crashes.push(minute)
      }
    }
    expect(crashes.length).toBeGreaterThanOrEqual(4)
    expect(new Set(crashes.map((minute) => Math.floor(minute / 60))).size).toBeGreaterThan(3)
  })

  test('nights and weekends are quieter, and the average over weeks is what was asked for', () => {
    const weeks = 12
    const fills = createFillProcess(3, { perHour: 3_600, meanSizeLots: 10, burstiness: 0.5 }, createCommonFactor(2))
    const hourly = counts(fills, Date.UTC(2026, 0, 1), 60 * minuteMs, weeks * 168)
    expect(Math.abs(mean(hourly) / 3_600 - 1)).toBeLessThan(0.05)
    const of = (test: (date: Date) => boolean): number =>
      mean(hourly.filter((_, hour) => test(new Date(Date.UTC(2026, 0, 1, hour)))))
    const isWeekend = (date: Date): boolean => date.getUTCDay() === 0 || date.getUTCDay() === 6
    expect(of(isWeekend) / of((date) => !isWeekend(date))).toBeLessThan(0.8)
    expect(of((date) => date.getUTCHours() < 7) / of((date) => date.getUTCHours() >= 12)).toBeLessThan(0.8)
  })

  test('the 24h volume rolls: trading can leave it smaller than it was five seconds before', () => {
    const world = createWorld({ seed: 1, scale: 'tiny', activity: {}, quirks: () => plainQuirks })
    let [traded, smaller] = [0, 0]
    const volumes = new Set<string>()
    for (let i = 0; i < 400; i++) {
      const at = afternoon + i * 5_000
      const before = world.ticker('USDT-FUTURES', 'BTCUSDT', at)
      const after = world.ticker('USDT-FUTURES', 'BTCUSDT', at + 5_000)
      const [from, to] = [Number(before?.['ts']), Number(after?.['ts'])]
      volumes.add(String(after?.['volume24h']))
      if (world.fills('USDT-FUTURES', 'BTCUSDT', from + 1, to + 1).length === 0) continue
      traded++
      if (Number(after?.['volume24h']) <= Number(before?.['volume24h'])) smaller++
    }
    expect(traded).toBeGreaterThan(100)
    expect(smaller / traded).toBeGreaterThan(0.2)
    expect(smaller / traded).toBeLessThan(0.8)
    expect(volumes.size).toBeGreaterThan(200)
  })

  test('a sweep walks away from the price of its run, level by level, on one side', () => {
    const world = createWorld({ seed: 1, scale: 'small', activity: {}, quirks: () => plainQuirks })
    const fills = world.fills('USDT-FUTURES', 'BTCUSDT', afternoon, afternoon + 30 * minuteMs)
    const byMs = new Map<string, (typeof fills)[number][]>()
    for (const fill of fills) byMs.set(fill.ts, [...(byMs.get(fill.ts) ?? []), fill])
    let sweeps = 0
    for (const together of byMs.values()) {
      expect(new Set(together.map(({ side }) => side)).size).toBe(1)
      if (together.length < 40) continue
      sweeps++
      const prices = together.map(({ price }) => Number(price))
      expect(new Set(prices).size).toBeGreaterThan(5)
      const steps = prices.slice(1).map((price, i) => price - (prices[i] ?? 0))
      const away = together[0]?.side === 'buy' ? 1 : -1
      // Two orders may meet in one millisecond: each walks away by itself.
      expect(steps.filter((step) => step * away < 0).length).toBeLessThan(together.length / 20)
    }
    expect(sweeps).toBeGreaterThan(3)
  })
})
