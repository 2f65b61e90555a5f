import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeProof, describeSource, endOfRows } from '../../../../src/files/export/request.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { addCoverage } from '../../../support/coverage.js'
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

test('an export says how much of its time is recorded, and how many gaps there are', async () => {
  const { database } = created
  const hour = 3_600_000
  const from = someTime + 10 * hour
  const to = from + 3 * hour
  const btc = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(database.db, btc, [{ from: from - hour, to: from + 2 * hour }])
  await recordGap(database.db, { ...btc, symbol: '*', range: { from: to - hour, to: to + hour }, reason: 'a test' })
  const fills = await describeSource(database, 'fills')
  const told = (share: string) => `${share}, 1 gap: see market.coverage and market.gaps`
  expect(await describeProof(database, { source: fills, from, symbols: ['BTCUSDT'] }, to)).toBe(
    told('66.6 % of the time is recorded'),
  )
  // Another was only recorded before that time.
  await addCoverage(database.db, { ...btc, symbol: 'ETHUSDT' }, [{ from: from - hour, to: from }])
  const mean = told('33.3 % of the time is recorded (mean of 2 series)')
  expect(await describeProof(database, { source: fills, from }, to)).toBe(mean)
  expect(await describeProof(database, { source: fills, from, categories: ['MARGIN'] }, to)).toBe(
    '0 % of the time is recorded, 0 gaps: see market.coverage and market.gaps',
  )
  const tickers = await describeSource(database, 'tickers')
  expect(await describeProof(database, { source: tickers, from }, to)).toBeNull()
})
