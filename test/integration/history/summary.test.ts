import { afterAll, beforeAll, expect, test } from 'vitest'
import { summarize } from '../../../src/cli/backfillWork.js'
import { instrumentStream } from '../../../src/db/series.js'
import { settleSlice, takeSlice } from '../../../src/ledger/slices.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('what was requested and is not proven is not called undone', async () => {
  const { db } = created.database
  const series = instrumentStream('funding_rates', { category: 'USDT-FUTURES', symbol: 'YOUNGUSDT' })
  const range = { from: someTime, to: someTime + 3_600_000 }
  const flags = { isUrgent: false, hasOpenBeginning: false }
  const want = { kind: 'backfill', series, ranges: [range], floor: range.from, again: false, ...flags } as const
  const ids = await insertWants(db, [want])
  const slice = await takeSlice(db, 'one', ({ ranges }) => ranges, ['funding_rates'])
  if (slice === null) throw new Error('nothing was to be taken')
  const result = { done: slice.ranges, requests: 1, received: 0, inserted: 0, updated: 0 }
  await db.transaction().execute((trx) => settleSlice(trx, slice, result))
  const planned = [{ series, range, missing: [range], final: [], ...flags }]
  const { failed, requests } = await summarize(db, planned, ids)
  expect(requests).toBe(1)
  expect(failed).toEqual([{ series, ...range, reason: 'requested, and no response proves it' }])
})
