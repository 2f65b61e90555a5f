import { expect, test } from 'vitest'
import { dayStatus } from '../../../../src/serve/api/routes.js'

const dayMs = 86_400_000
const day = Date.UTC(2026, 0, 15)
const past = day + 10 * dayMs
const aDay = { day, coveredMs: 0, coveredTo: null, openGapMs: 0, lostMs: 0, hasRows: true }

const today = (from: number, to: number) => ({ ...aDay, coveredMs: to - from, coveredTo: day + to })

test.each([
  ['none without a proof', aDay, past, 'none'],
  ['complete when all of it is proven', { ...aDay, coveredMs: dayMs }, past, 'complete'],
  ['partial when a second is missing', { ...aDay, coveredMs: dayMs - 1000 }, past, 'partial'],
  ['missing with an open gap alone', { ...aDay, openGapMs: 1 }, past, 'missing'],
  ['lost with a gap for good, whatever else is proven', { ...aDay, coveredMs: dayMs, lostMs: 1 }, past, 'lost'],
  ['empty when it is proven that nothing happened', { ...aDay, coveredMs: dayMs, hasRows: false }, past, 'empty'],
  ['complete today when what has passed is proven', today(0, 3_600_000), day + 3_700_000, 'complete'],
  ['partial today when an hour is missing', today(0, 3_600_000), day + 7_800_000, 'partial'],
  ['partial today when its first minute is missing', today(60_000, 3_600_000), day + 3_700_000, 'partial'],
] as const)('a day is %s', (_name, given, now, expected) => {
  expect(dayStatus(given as never, { stream: 'candles', interval: '1m' }, now as never)).toBe(expected)
})
