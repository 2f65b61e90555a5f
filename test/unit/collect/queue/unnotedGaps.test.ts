import { beforeEach, expect, test } from 'vitest'
import { UnnotedGaps } from '../../../../src/collect/queue/unnotedGaps.js'
import type { Batch } from '../../../../src/ledger/batch/batch.js'
import { createFakeClock, type FakeClock } from '../../../support/fakeClock.js'

const noteOf = (symbol: string, from: number): Batch => ({
  stream: 'order_books',
  target: { category: 'SPOT', symbol },
  requestTime: from,
  receivedAt: from,
  rows: [],
  rejected: [],
  proven: [],
  gaps: [{ category: 'SPOT', symbol, range: { from, to: from + 1 }, reason: 'dropped because the spool was full' }],
  isPart: true,
})
const timesOf = (notes: readonly Batch[]) =>
  notes.flatMap(({ gaps }) => gaps.map(({ range }) => range.from)).toSorted((a, b) => a - b)

let clock: FakeClock
let kept: readonly Batch[]
let stored: Batch[]
let appended: Batch[]
let isDatabaseUp: boolean
let hasDiskRoom: boolean
let gaps: UnnotedGaps
beforeEach(() => {
  clock = createFakeClock()
  kept = []
  stored = []
  appended = []
  isDatabaseUp = false
  hasDiskRoom = false
  gaps = new UnnotedGaps({
    clock,
    keep: async (notes) => {
      kept = notes
      return true
    },
    store: async (note) => {
      if (isDatabaseUp) stored.push(note)
      return isDatabaseUp
    },
    append: async (note) => {
      if (hasDiskRoom) appended.push(note)
      return hasDiskRoom
    },
  })
})

test('they are in the reserve until database or disk takes them, which is tried each second', async () => {
  expect(await gaps.add([noteOf('BTCUSDT', 1), noteOf('BTCUSDT', 2)])).toBe(true)
  expect(timesOf(kept)).toEqual([1, 2])
  await clock.advance(3_000)
  expect(timesOf(kept)).toEqual([1, 2])
  hasDiskRoom = true
  await clock.advance(1_000)
  expect(timesOf(appended)).toEqual([1, 2])
  expect(kept).toEqual([])
  expect(stored).toEqual([])
  expect(clock.pendingSleeps).toBe(0)
})

test('what comes while others are on their way stays in the reserve with them', async () => {
  let finish = () => {}
  let keptMeanwhile: readonly Batch[] = []
  const slow = new UnnotedGaps({
    clock,
    keep: async (notes) => {
      keptMeanwhile = notes
      return true
    },
    store: () =>
      new Promise((resolve) => {
        finish = () => resolve(true)
      }),
    append: async () => false,
  })
  await slow.add([noteOf('BTCUSDT', 1)])
  const storing = slow.store()
  await slow.add([noteOf('BTCUSDT', 2)])
  expect(timesOf(keptMeanwhile)).toEqual([1, 2])
  finish()
  await storing
  expect(timesOf(keptMeanwhile)).toEqual([2])
})

test('a last attempt that succeeds leaves nothing; before it begins, the gap is in the reserve', async () => {
  const seen: number[][] = []
  const attempt = (outcome: boolean) => async () => {
    seen.push(timesOf(kept))
    return outcome
  }
  expect(await gaps.addUnless([noteOf('BTCUSDT', 1)], attempt(true))).toBe(true)
  expect(kept).toEqual([])
  expect(await gaps.addUnless([noteOf('BTCUSDT', 2)], attempt(false))).toBe(false)
  expect(seen).toEqual([[1], [2]])
  expect(timesOf(kept)).toEqual([2])
  isDatabaseUp = true
  await gaps.store()
  expect(timesOf(stored)).toEqual([2])
  expect(kept).toEqual([])
})

test('of very many gaps those of a series become one, so that they fit', async () => {
  for (let index = 0; index < 2_500; index++) await gaps.add([noteOf(index % 2 === 0 ? 'BTCUSDT' : 'ETHUSDT', index)])
  const all = kept.flatMap((note) => note.gaps)
  expect(all.length).toBeLessThan(2_001)
  const widest = all.find(({ symbol }) => symbol === 'BTCUSDT')
  expect(widest?.range).toEqual({ from: 0, to: 2_001 })
})
