import { describe, expect, it } from 'vitest'
import { confirmEmpty } from '../../../src/history/emptiness.js'
import type { PageRequest } from '../../../src/history/pageRequest.js'
import type { TimeMs } from '../../../src/market/values.js'

const minuteMs = 60_000
const first = Date.UTC(2026, 0, 1)
const floor = first - 1000 * minuteMs
const range = { from: first - 100 * minuteMs, to: first }

function confirm(answer: (request: PageRequest, asked: number) => readonly TimeMs[]) {
  const asked = new Map<string, number>()
  const ask = (request: PageRequest) => {
    const key = JSON.stringify(request)
    asked.set(key, (asked.get(key) ?? 0) + 1)
    return Promise.resolve(answer(request, asked.get(key) ?? 0))
  }
  const grid = { lengthMs: minuteMs, anchor: first }
  const sleep = () => Promise.resolve()
  const reach = { reachedTo: Number.POSITIVE_INFINITY, beyondTo: Number.NEGATIVE_INFINITY }
  return confirmEmpty(ask, { range, floor, grid, sleep, ...reach })
}

const holds = ({ window }: PageRequest, time: TimeMs) => time >= window.from && time < window.to

describe('a range that stays silent', () => {
  it('is empty when the series is seen to begin at its end', async () => {
    expect(await confirm((request) => (holds(request, first) ? [first] : []))).toBe('empty')
  })

  it('is empty also when a page that ends where the series begins shows its first candle', async () => {
    const answer = ({ window }: PageRequest) => (first >= window.from && first <= window.to ? [first] : [])
    expect(await confirm(answer)).toBe('empty')
  })

  it('proves nothing when the service does not give the candle that follows it either', async () => {
    expect(await confirm(() => [])).toBe('unknown')
  })

  it('is a gap when any page down to the floor holds a candle, or the page below it', async () => {
    for (const candle of [first - 500 * minuteMs, floor, floor - minuteMs]) {
      const answer = (request: PageRequest) => [first, candle].filter((time) => holds(request, time))
      expect(await confirm(answer)).toBe('candles-below')
    }
  })

  it('is a gap when a candle below shows at the third time of asking only', async () => {
    const candle = first - 500 * minuteMs
    const answer = (request: PageRequest, asked: number) =>
      [first, candle].filter((time) => holds(request, time) && (time === first || asked === 3))
    expect(await confirm(answer)).toBe('candles-below')
  })

  it('is a gap when only the page across its end shows a candle in it', async () => {
    const answer = (request: PageRequest) =>
      holds(request, first) ? [first - minuteMs, first].filter((time) => holds(request, time)) : []
    expect(await confirm(answer)).toBe('candles-below')
  })
})
