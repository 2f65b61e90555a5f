import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import type { FillBatch } from '../../../src/ledger/batch.js'
import { at, every, fillPage, fillRanges, storeAll } from '../../support/fillPages.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() => test.database.pool.query('truncate market.fills, recorder.ledger, recorder.rejected_row'))

const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
/** Four minutes of fills, three in a second. */
const times = every(370, 37, 240_000)
const pageOf = (from: number, to: number) => fillPage(times.filter((ms) => ms >= from && ms < to))

/** Stores a page of a history that gives whole seconds. */
function storeInSeconds(from: number, to: number) {
  const fills = pageOf(from, to).rows.map((fill) => ({ ...fill, ts: fill.ts - (fill.ts % 1_000) }))
  const asked = { from: at(from), to: at(to) }
  const told = { other: null, reachesTo: at(0), largest: 1_000, disorderMs: 0, requestTime: at(600_000) }
  return storePastFills(test.database.db, key, { asked, fills, ...told })
}
const storeLive = (...pages: FillBatch[]) => storeAll(test.database.db, pages)
const ranges = async () => [await fillRanges(test.database.db, 'coverage'), await fillRanges(test.database.db, 'gaps')]
async function stored(): Promise<number[]> {
  const { rows } = await test.database.pool.query<{ ts: number }>(
    'select (extract(epoch from ts) * 1000)::bigint as ts from market.fills order by ts, exec_id',
  )
  return rows.map(({ ts }) => ts - someTime)
}

it('are stored once where live pages show them, whose finer times stand, and both join', async () => {
  await storeInSeconds(0, 60_000)
  expect(await ranges()).toEqual([[[1_000, 59_000]], []])
  expect(await storeLive(pageOf(50_300, 80_000))).toMatchObject([{ remarks: [], gapsFound: 0 }])
  const newest = times.filter((ms) => ms < 80_000).at(-1)
  const expected = times.filter((ms) => ms < 80_000).map((ms) => (ms < 50_300 ? ms - (ms % 1_000) : ms))
  expect(await stored()).toEqual(expected.toSorted((a, b) => a - b))
  expect(await ranges()).toEqual([[[1_000, newest]], []])
  expect(await storeInSeconds(0, 80_000)).toMatchObject({ inserted: 0, refusal: null, showsLive: true })
  expect(await stored()).toHaveLength(expected.length)
})

it('are not left out by a page that ends within their second, and by one that lacks them', async () => {
  await storeInSeconds(0, 240_000)
  const whole = await ranges()
  expect(await storeLive(pageOf(50_300, 80_500))).toMatchObject([{ remarks: [], inserted: 0, gapsFound: 0 }])
  expect(await ranges()).toEqual(whole)
  const { rows, ...page } = pageOf(100_300, 130_500)
  const lacking = rows.filter(({ ts }) => ts < at(110_000) || ts >= at(111_000))
  expect(await storeLive({ ...page, rows: lacking })).toMatchObject([{ inserted: 0 }])
  expect((await ranges())[1]).toEqual([[110_000, 111_000]])
  expect(await stored()).toHaveLength(times.length)
})

it('keep their own values where a live page gives others, which are kept as rejected ones', async () => {
  await storeInSeconds(0, 60_000)
  const { rows, ...page } = pageOf(30_300, 50_500)
  const changed = rows.map((fill, place) => (place === 20 ? { ...fill, size: '77' } : fill))
  expect(await storeLive({ ...page, rows: changed })).toMatchObject([{ inserted: 0, rejected: 1 }])
  const { ts = 0 } = changed[20] ?? {}
  expect((await ranges())[1]).toEqual([[ts - someTime, ts - someTime + 1]])
  expect(await stored()).toHaveLength(times.filter((ms) => ms < 60_000).length)
})
