import { describe, expect, it } from 'vitest'
import { type Asking, hasRoom as hasRoomOf, type SliceKind } from '../../../src/history/slices.js'

const running = (kind: SliceKind, count: number, asking: Asking) =>
  Array.from({ length: count }, () => ({ kind, asking }))
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
    const fills = running('events', 7, 'spot-fills-history')
    expect(hasRoomOf('events', [...fills, ...asking(32, 'history-candles')], 40)).toBe(true)
    expect(hasRoomOf('events', running('events', 8, null), 0)).toBe(false)
    expect(hasRoom(fills, 9)).toBe(true)
  })
})
