import fc from 'fast-check'
import { expect, test } from 'vitest'
import { counted, grouped } from '../../../src/runtime/text.js'

test('the digits of a count are grouped as English writes them', () => {
  fc.assert(
    fc.property(fc.oneof(fc.integer({ min: -(10 ** 7), max: 10 ** 7 }), fc.maxSafeInteger()), (count) => {
      expect(grouped(count)).toBe(count.toLocaleString('en-US'))
    }),
  )
  expect(grouped(1234.5678)).toBe('1,234.5678')
  expect(grouped(Infinity)).toBe('Infinity')
})

test('one of a kind is named as one', () => {
  expect([0, 1, 2].map((count) => counted(count, 'file'))).toEqual(['0 files', '1 file', '2 files'])
})
