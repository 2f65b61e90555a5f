import { describe, expect, it } from 'vitest'
import { hasRoom, maxPagesOfSlice, type RunningSlice } from '../../../src/history/room.js'

const minuteMs = 60_000
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

/** A slice of so many candles that asks for these pages at the moment. */
const running = (candles: number, recent: number, history: number): RunningSlice => ({
  slice: { series, ranges: [{ from: 0, to: candles * minuteMs }] },
  pages: { candles: recent, 'history-candles': history },
})
const long = 20_000
const begun = running(long, 0, 0)
const waiting = running(long, maxPagesOfSlice, 0)
const limit = 20

describe('room for another slice', () => {
  it('is there until enough pages of history-candles are to be expected', () => {
    expect(hasRoom([], limit)).toBe(true)
    expect(hasRoom([begun], limit)).toBe(true)
    expect(hasRoom([begun, running(long, 0, 16)], limit)).toBe(false)
    expect(
      hasRoom(
        Array.from({ length: 15 }, () => running(100, 0, 1)),
        limit,
      ),
    ).toBe(true)
    expect(
      hasRoom(
        Array.from({ length: 16 }, () => running(100, 0, 1)),
        limit,
      ),
    ).toBe(false)
  })

  it('is there beside slices that wait for candles alone, up to some', () => {
    expect(hasRoom([waiting, waiting, waiting], limit)).toBe(true)
    expect(hasRoom([waiting, waiting, waiting, begun, begun], limit)).toBe(false)
    expect(hasRoom([waiting, waiting, waiting, waiting, waiting, waiting], limit)).toBe(false)
  })

  it('is less where the service allows less', () => {
    expect(hasRoom([running(200, 0, 2)], 1)).toBe(false)
    expect(hasRoom([running(200, 0, 2)], 2)).toBe(true)
  })
})
