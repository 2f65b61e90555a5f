import { afterAll, beforeAll, expect, test } from 'vitest'
import { gapsOfGone } from '../../../src/cli/backfillWork.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import type { Interval } from '../../../src/market/candle.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('a backfill names gaps of what left the list, and of the series alone that it is asked for', async () => {
  const { db } = created.database
  const range = { from: someTime, to: someTime + 60_000 }
  const gap = { stream: 'candles', category: 'SPOT', type: 'market', interval: '1m', range, reason: 'away' } as const
  await recordGap(db, { ...gap, symbol: 'GONE' })
  await recordGap(db, { ...gap, symbol: 'LISTED' })
  const what = { stream: 'candles', categories: ['SPOT'], symbols: ['*'], types: ['market'] } as const
  const told = (intervals: readonly Interval[], more: object = {}) =>
    gapsOfGone(db, { ...what, intervals, ...range, ...more }, [{ category: 'SPOT', symbol: 'LISTED' }])
  expect(await told(['1H', '1m'])).toEqual(['missing: SPOT GONE has gaps and is not listed any more: away'])
  expect(await told(['1H']), 'another interval').toEqual([])
  expect(await told(['1m'], { types: ['mark'] }), 'another type').toEqual([])
  expect(await told(['1m'], { from: range.to, to: range.to + 1 }), 'another time').toEqual([])
})
