import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import { OperationStates } from '../../../src/history/reach.js'
import { FillRepair, repairOf } from '../../../src/history/repairs.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { cancelBackfills, insertWants } from '../../../src/ledger/wants.js'
import { dayMs, hourMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { wantedRanges } from '../../support/backfill.js'
import { addCoverage } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await test.database.pool.query('truncate recorder.ledger, recorder.want cascade')
})

const now = Date.UTC(2026, 10, 20)
const series = instrumentStream('fills', { category: 'USDT-FUTURES', symbol: 'BTCUSDT' })
/** The time from so many days ago to so many. */
const days = (from: number, to: number) => ({ from: now - from * dayMs, to: now - to * dayMs })
const claim = (from: number, to: number) => addCoverage(test.database.db, series, [days(from, to)])
const gaps = async () =>
  (await listGaps(test.database.db)).map(({ range, reason }) => [
    (now - range.from) / dayMs,
    (now - range.to) / dayMs,
    reason,
  ])
const unasked = 'not recorded: nobody asked for it, or the recorder or the service was away'

it('what lies between fills that the history claims and those around it is a gap, but for what is wanted', async () => {
  const { db } = test.database
  await claim(1, 0)
  await claim(70, 60)
  expect(await gaps()).toEqual([[60, 1, unasked]])
  const backfill = { ...repairOf(series, [days(110, 100)]), kind: 'backfill' } as const
  await insertWants(db, [backfill])
  await claim(101, 100)
  expect(await gaps(), 'a backfill that goes on').toEqual([
    [100, 70, unasked],
    [60, 1, unasked],
  ])
  await claim(120, 119)
  expect((await gaps())[0], 'below what it goes on to').toEqual([119, 110, unasked])
  await cancelBackfills(db, { isSymbol: () => true })
  expect((await gaps())[0], 'one that was cancelled').toEqual([119, 101, unasked])
})

it('a gap that nobody may want filled is, unless it began more than 30 days ago', async () => {
  const { db } = test.database
  await claim(50, 49)
  await claim(20, 19)
  await claim(1, 0)
  expect(await gaps()).toEqual([
    [49, 20, unasked],
    [19, 1, unasked],
  ])
  const states = new OperationStates(systemClock)
  states.note('futures-fills-history', 'present')
  await new FillRepair({ db, isOwn: () => true, states }).look(now + hourMs)
  expect(await wantedRanges(db, 'BTCUSDT')).toEqual([days(19, 1)])
})
