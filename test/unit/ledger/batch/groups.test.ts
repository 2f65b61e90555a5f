import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StreamName } from '../../../../src/market/stream.js'
import { type Batch, seriesKey } from '../../../../src/ledger/batch/batch.js'
import { takeGroup } from '../../../../src/ledger/batch/groups.js'

function waiting(stream: StreamName, symbol: string, rows: number, changes: Partial<Batch> = {}): { batch: Batch } {
  const nothing = { requestTime: 0, receivedAt: 0, rejected: [], proven: [], gaps: [], isPart: false }
  return {
    batch: {
      stream,
      target: { category: 'SPOT', symbol },
      rows: Array.from({ length: rows }, () => ({})),
      ...nothing,
      ...changes,
    },
  }
}

const symbols = (taken: readonly { batch: Batch }[]) =>
  taken.map(({ batch }) => (batch.target as { symbol: string }).symbol)

test('pages of different instruments go together, up to two thousand rows', () => {
  const queue = Array.from({ length: 22 }, (_, index) => waiting('fills', `N${index}`, 100))
  expect(takeGroup(queue)).toHaveLength(20)
  expect(symbols(queue)).toEqual(['N20', 'N21'])
})

test('a second page of an instrument waits for the first', () => {
  const queue = [waiting('fills', 'A', 100), waiting('fills', 'A', 100), waiting('fills', 'B', 100)]
  expect(symbols(takeGroup(queue))).toEqual(['A', 'B'])
  expect(symbols(queue)).toEqual(['A'])
})

test('what is more than rows goes by itself', () => {
  const part = waiting('fills', 'A', 5, { isPart: true })
  const unkept = waiting('fills', 'B', 5, { unkept: 1 })
  const queue = [part, unkept, waiting('tickers', '', 800), waiting('fills', 'C', 5), waiting('order_books', 'D', 1)]
  expect(symbols(takeGroup(queue))).toEqual(['A'])
  expect(symbols(takeGroup(queue))).toEqual(['B'])
  expect(symbols(takeGroup(queue))).toEqual([''])
  expect(symbols(takeGroup(queue))).toEqual(['C', 'D'])
})

test('everything is taken once, the first one first, and never two of one series together', () => {
  const some = fc.tuple(
    fc.constantFrom<StreamName>('fills', 'order_books', 'candles', 'tickers'),
    fc.constantFrom('A', 'B', 'C', 'D'),
    fc.integer({ min: 0, max: 150 }),
  )
  fc.assert(
    fc.property(fc.array(some, { maxLength: 60 }), (entries) => {
      const queue = entries.map(([stream, symbol, rows]) => waiting(stream, symbol, rows))
      const all = [...queue]
      const taken = new Set<{ batch: Batch }>()
      while (queue.length > 0) {
        const first = queue[0]
        const group = takeGroup(queue)
        expect(group[0]).toBe(first)
        const keys = group.map(({ batch }) => seriesKey(batch))
        expect(new Set(keys).size).toBe(keys.length)
        for (const entry of group) taken.add(entry)
      }
      expect(taken).toEqual(new Set(all))
    }),
  )
})
