import { afterAll, beforeAll, expect, test } from 'vitest'
import { timeBetween } from '../../../src/cli/backfillWork.js'
import { instrumentStream } from '../../../src/db/series.js'
import { addCoverage } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('a backfill of old days says what lies between them and what is recorded', async () => {
  const { db } = created.database
  const hour = 3_600_000
  const series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
  const planned = { isUrgent: false, hasOpenBeginning: false, missing: [], final: [] }
  const of = (from: number, to: number) => timeBetween(db, [{ ...planned, series, range: { from, to } }])
  const old = someTime - 9 * hour
  expect(await of(old, old + hour), 'nothing is recorded').toBeNull()
  await addCoverage(db, series, [{ from: someTime, to: someTime + hour }])
  const iso = (time: number) => new Date(time).toISOString()
  const told = await of(old, old + hour)
  expect(told).toContain(`${iso(old + hour).slice(0, 16)} to ${iso(someTime).slice(0, 16)}. A recorder`)
  expect(told).toContain(`--to ${iso(someTime)} `)
  expect(await of(old, someTime), 'they meet').toBeNull()
  expect(await of(someTime, someTime + 2 * hour), 'nothing is later').toBeNull()
  const fills = instrumentStream('fills', { category: 'SPOT', symbol: 'BTCUSDT' })
  await addCoverage(db, fills, [{ from: someTime, to: someTime + hour }])
  const ofFills = await timeBetween(db, [{ ...planned, series: fills, range: { from: old, to: old + hour } }])
  expect(ofFills).toContain(`--to ${iso(someTime)} `)
})
