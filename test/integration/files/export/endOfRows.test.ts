import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeSource, endOfRows } from '../../../../src/files/export/request.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill, someTime } from '../../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test.each([-400, 0, 400])('an export ends after its newest row, %i days from what a clock shows', async (days) => {
  const { database } = created
  await database.pool.query('truncate market.fills')
  const ts = Date.now() + days * 86_400_000
  await insertFills(database.db, [aFill({ ts, execId: '1' }), aFill({ ts: someTime, execId: '2' })])
  const source = await describeSource(database, 'fills')
  const newest = Math.max(ts, someTime)
  expect(await endOfRows(database, { source, from: 0 })).toBe(newest + 1)
  expect(await endOfRows(database, { source, from: newest + 1 })).toBe(newest + 1)
  expect(await endOfRows(database, { source, from: 0, symbols: ['NONE'] })).toBe(0)
})

test('a gap of all instruments belongs to those of each', async () => {
  const { database } = created
  const range = { from: someTime, to: someTime + 1000 }
  const series = { stream: 'fills', category: 'SPOT', symbol: '*', type: '', interval: '' } as const
  await recordGap(database.db, { ...series, range, reason: 'a test' })
  const source = await describeSource(database, 'gaps')
  expect(await endOfRows(database, { source, from: 0, symbols: ['BTCUSDT'] })).toBe(someTime + 1)
})
