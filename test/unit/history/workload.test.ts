import { describe, expect, it } from 'vitest'
import { type Asking, hasRoom as hasRoomOf } from '../../../src/history/workload.js'
import type { StreamName } from '../../../src/market/stream.js'

const running = (stream: StreamName, count: number, asking: Asking) =>
  Array.from({ length: count }, () => ({ stream, asking }))
const asking = (count: number, operation: Asking) => running('candles', count, operation)
const hasRoom = (slices: ReturnType<typeof running>, waiting: number) => hasRoomOf('candles', slices, waiting)

describe('room for another slice', () => {
  it('is there until some requests wait for their place', () => {
    expect(hasRoom([], 0)).toBe(true)
    expect(hasRoom(asking(12, 'history-candles'), 2)).toBe(true)
    expect(hasRoom(asking(4, 'history-candles'), 3)).toBe(false)
  })

  it('counts slices that have not asked yet as waiting', () => {
    expect(hasRoom(asking(2, null), 0)).toBe(true)
    expect(hasRoom(asking(3, null), 0)).toBe(false)
  })

  it('is there beside slices that wait for candles alone, up to some', () => {
    expect(hasRoom(asking(5, 'candles'), 5)).toBe(true)
    expect(hasRoom(asking(6, 'candles'), 0)).toBe(false)
  })

  it('ends at a number of slices, however long the service takes', () => {
    expect(hasRoom(asking(31, 'history-candles'), 0)).toBe(true)
    expect(hasRoom(asking(32, 'history-candles'), 0)).toBe(false)
  })

  it('is there for events beside any number of candles, and for candles beside events', () => {
    const fills = running('fills', 7, 'spot-fills-history')
    expect(hasRoomOf('fills', [...fills, ...asking(32, 'history-candles')], 40)).toBe(true)
    expect(hasRoomOf('fills', running('fills', 8, null), 0)).toBe(false)
    expect(hasRoom(fills, 9)).toBe(true)
  })

  it('is there for a stream of events whatever another one takes', () => {
    expect(hasRoomOf('fills', running('liquidations', 8, 'liquidations'), 8)).toBe(true)
  })
})
