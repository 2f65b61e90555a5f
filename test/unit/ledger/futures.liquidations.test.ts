import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countRepeated } from '../../../src/history/joinPages.js'
import { liquidationText, numberOccurrences } from '../../../src/ledger/futures.js'
import type { Liquidation } from '../../../src/market/funding.js'

const keyOf = (row: ReturnType<typeof numberOccurrences>[number]) => `${liquidationText(row)} ${row.occurrence}`

/** Newest first; some happen twice or three times in one moment, equal in all. */
const tapes = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.constantFrom('1', '2'), fc.integer({ min: 1, max: 3 })), {
    maxLength: 40,
  })
  .map((moments) => {
    let ts = 1_000_000
    return moments.flatMap(([pause, price, times]) => {
      ts -= pause
      const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
      const row: Liquidation = { ...key, ts, side: 'buy', price, amount: '1', receivedAt: 0, extra: {} }
      return Array.from({ length: times }, () => row)
    })
  })

test('parts of the past that overlap, seen in any order and again, are as many liquidations as there were', () => {
  fc.assert(
    fc.property(tapes, fc.array(fc.tuple(fc.nat(60), fc.nat(60)), { maxLength: 10 }), (tape, parts) => {
      const stored = new Set<string>()
      const see = (rows: readonly Liquidation[]) => {
        for (const row of numberOccurrences(rows)) stored.add(keyOf(row))
      }
      for (const [from, count] of parts) see(tape.slice(from, from + count))
      const all = new Set(numberOccurrences(tape).map(keyOf))
      expect(all.size).toBe(tape.length)
      for (const key of stored) expect(all).toContain(key)
      see(tape)
      see(tape)
      expect(stored).toEqual(all)
    }),
  )
})

test('a page that repeats rows of the page before adds none, and a row that came meanwhile is counted later', () => {
  const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', side: 'buy', receivedAt: 0, extra: {} } as const
  const row = (ts: number, price: string): Liquidation => ({ ...key, ts, price, amount: '1' })
  const [twin, other, older] = [row(9, '1'), row(8, '1'), row(7, '1')]
  const pass = [[twin, twin, other], [twin, other, older], [older]].reduce<readonly Liquidation[]>(
    (above, page) => [...above, ...page.slice(countRepeated(above, page, liquidationText))],
    [],
  )
  expect(pass).toEqual([twin, twin, other, older])
  expect(numberOccurrences(pass).map(({ occurrence }) => occurrence)).toEqual([1, 2, 1, 1])
  // The same numbers may be written with other zeros at the end, in one page and in the next.
  const spelt = { ...twin, price: '1.00', amount: '1.0' }
  expect(numberOccurrences([twin, spelt]).map(({ occurrence }) => occurrence)).toEqual([1, 2])
  expect(countRepeated([twin, twin, other], [{ ...spelt, ts: 8 }, older], liquidationText)).toBe(1)
  // A third equal one lies above the newest page of that pass.
  expect(numberOccurrences([twin, twin, twin, other]).map(({ occurrence }) => occurrence)).toEqual([1, 2, 3, 1])
})
