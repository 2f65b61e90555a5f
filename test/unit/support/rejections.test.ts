import { expect, test } from 'vitest'
import { brokenPromises } from '../../support/rejections.js'

const at = 1_700_000_000_000
const refused = [{ operation: 'fills', status: 429, atMs: at } as const]
const told = [`fills at ${new Date(at).toISOString()}`]

test('a request that was refused is a broken promise when nothing stood still', () => {
  expect(brokenPromises(refused, [], 100)).toEqual(told)
  expect(brokenPromises([{ operation: 'fills', status: 200, atMs: at }], [], 100)).toEqual([])
})

test('it is one, too, when the stalls were no longer than the jitter, or long ago, or later', () => {
  expect(brokenPromises(refused, [{ fromMs: at - 500, toMs: at - 400 }], 100)).toEqual(told)
  expect(brokenPromises(refused, [{ fromMs: at - 9_000, toMs: at - 2_000 }], 100)).toEqual(told)
  expect(brokenPromises(refused, [{ fromMs: at + 10, toMs: at + 900 }], 100)).toEqual(told)
})

test('it is none when one stall, or several together, were longer than the jitter', () => {
  expect(brokenPromises(refused, [{ fromMs: at - 1_050, toMs: at - 900 }], 100)).toEqual([])
  const [first, second] = [
    { fromMs: at - 800, toMs: at - 740 },
    { fromMs: at - 300, toMs: at - 240 },
  ]
  expect(brokenPromises(refused, [first, second], 100)).toEqual([])
})
