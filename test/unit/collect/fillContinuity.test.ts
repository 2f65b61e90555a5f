import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type FillMemory, fillsPerPage, judgeFills, nextFillPollMs } from '../../../src/collect/fillContinuity.js'
import type { Fill } from '../../../src/market/fill.js'
import type { TimeRange } from '../../../src/market/timeRange.js'

function fill(index: number, ts: number): Fill {
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    ts,
    execId: String(index),
    execLinkId: null,
    side: 'buy',
    price: '1',
    size: '1',
    isRpi: null,
    receivedAt: ts,
    extra: {},
  }
}

/** A market with fills at the given times, polled when the given numbers of fills have happened. */
function watch(times: readonly number[], pollAfter: readonly number[]) {
  const stored = new Set<number>()
  const proven: TimeRange[] = []
  const gaps: TimeRange[] = []
  let memory: FillMemory | null = null
  for (const happened of pollAfter) {
    const indexes = times.map((_, index) => index).slice(Math.max(0, happened - fillsPerPage), happened)
    const rows = indexes.map((index) => fill(index, times[index] ?? 0)).reverse()
    const requestTime = times[happened - 1] ?? (times[0] ?? 0) - 1
    const judged = judgeFills(memory, rows, rows.length, requestTime)
    for (const index of indexes) stored.add(index)
    if (judged.proven) proven.push(judged.proven)
    if (judged.gap) gaps.push(judged.gap)
    memory = judged.memory
  }
  return { stored, proven, gaps }
}

const market = fc
  .record({
    steps: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 600 }),
    polls: fc.array(fc.integer({ min: 0, max: 220 }), { minLength: 1, maxLength: 12 }),
  })
  .map(({ steps, polls }) => {
    let time = 1_000_000
    const times = steps.map((step) => (time += step))
    let happened = 0
    const pollAfter = polls.map((more) => (happened = Math.min(times.length, happened + more)))
    return { times, pollAfter }
  })

describe('judging fills', () => {
  test('what is called proven is stored without exception', () => {
    fc.assert(
      fc.property(market, ({ times, pollAfter }) => {
        const { stored, proven } = watch(times, pollAfter)
        for (const [index, time] of times.entries()) {
          if (proven.some((range) => range.from <= time && time < range.to)) expect(stored.has(index)).toBe(true)
        }
      }),
    )
  })

  test('every fill that was missed after the first answer lies in a gap, and no gap is without a missed fill', () => {
    fc.assert(
      fc.property(market, ({ times, pollAfter }) => {
        const { stored, gaps } = watch(times, pollAfter)
        const first = Math.min(...stored)
        const last = Math.max(...stored)
        const missed = [...times.keys()].filter((index) => index > first && index < last && !stored.has(index))
        const inGap = (index: number, gap: TimeRange) => gap.from <= (times[index] ?? 0) && (times[index] ?? 0) < gap.to
        for (const index of missed) expect(gaps.some((gap) => inGap(index, gap))).toBe(true)
        for (const gap of gaps) expect(missed.some((index) => inGap(index, gap))).toBe(true)
      }),
    )
  })

  test('an instrument that never traded follows on from its empty answer', () => {
    const empty = judgeFills(null, [], 0, 1000)
    expect(judgeFills(empty.memory, [fill(1, 5000)], 1, 6000)).toMatchObject({
      proven: { from: 1000, to: 5000 },
      gap: null,
      newFills: 1,
    })
  })

  test('a broken row counts as part of a full page, so that the page is not taken for all there is', () => {
    const rows = Array.from({ length: fillsPerPage - 1 }, (_, index) => fill(index, 10_000 - index))
    expect(judgeFills(null, rows, fillsPerPage, 11_000).proven).toEqual({ from: 9903, to: 10_000 })
    expect(judgeFills(null, rows, rows.length, 11_000).proven).toEqual({ from: 9902, to: 10_000 })
  })
})

describe('the next poll', () => {
  const evenly = (everyMs: number) =>
    Array.from({ length: fillsPerPage }, (_, index) => fill(index, 1e6 - index * everyMs))

  test('comes when half a page is expected to be new', () => {
    expect(nextFillPollMs(evenly(100), 1e6, 1000, 300_000)).toBeCloseTo(5000, -3)
  })
  test('keeps to its bounds', () => {
    expect(nextFillPollMs(evenly(1), 1e6, 2000, 300_000)).toBe(2000)
    expect(nextFillPollMs(evenly(1e6), 1e6, 2000, 300_000)).toBe(300_000)
    expect(nextFillPollMs([], 1e6, 2000, 300_000)).toBe(300_000)
  })
  test('goes by the burst at the end of a slow page', () => {
    const burst = evenly(60_000).map((row, index) => (index < 20 ? fill(index, 1e6 - index * 100) : row))
    expect(nextFillPollMs(burst, 1e6, 1000, 300_000)).toBeLessThan(10_000)
  })
  test('slows down when trading has stopped', () => {
    expect(nextFillPollMs(evenly(10), 1e6 + 600_000, 1000, 300_000)).toBe(300_000)
  })
})
