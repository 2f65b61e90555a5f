import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { FillBatch } from '../../../src/ledger/batch.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { at, fillRanges, storeAll } from '../../support/fillPages.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() =>
  test.database.pool.query('truncate market.fills, market.candles, recorder.ledger, recorder.rejected_row'),
)

const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
type Told = readonly [number, string]
const rowsOf = (rows: readonly Told[]) =>
  rows.map(([ms, execId]) => aFill({ execId, ts: at(ms), price: '10', size: '1' })).toReversed()
const page = (rows: readonly Told[], requested: number) =>
  batchOf('fills', key, rowsOf(rows), at(requested)) as FillBatch
const store = async (rows: readonly Told[], requested: number) =>
  (await storeAll(test.database.db, [page(rows, requested)]))[0]
const claimed = () => fillRanges(test.database.db, 'coverage')
async function stored(): Promise<string[]> {
  const { rows } = await test.database.pool.query<{ ms: number; id: string }>(
    'select (extract(epoch from ts) * 1000)::bigint as ms, exec_id as id from market.fills order by ts, exec_id',
  )
  return rows.map(({ ms, id }) => `${ms - someTime} ${id}`)
}
const first: Told[] = [
  [1_000, 'a'],
  [2_002, 'b'],
  [3_003, 'c'],
  [4_004, 'd'],
]
const firstStored = first.map(([ms, id]) => `${ms} ${id}`)

it.each([3_004, 3_002])(
  'a fill that comes again at another time is stored once, and both are in doubt: %i',
  async (ms) => {
    await store(first, 60_000)
    const oldest: Told[] = [
      [ms, 'c'],
      [4_004, 'd'],
      [5_005, 'e'],
    ]
    expect(await store(oldest, 61_000)).toMatchObject({ inserted: 1, rejected: 1 })
    expect(await stored()).toEqual([...firstStored, '5005 e'])
    const doubted = [Math.min(ms, 3_003), Math.max(ms, 3_003) + 1]
    expect(await claimed()).toEqual([
      [1_001, doubted[0]],
      [doubted[1], 5_005],
    ])
    // Until a response shows the stored time.
    await store([...first, [5_005, 'e']], 62_000)
    expect(await claimed()).toEqual([[1_001, 5_005]])
    const inside: Told[] = [
      [2_002, 'b'],
      [ms, 'c'],
      [4_004, 'd'],
      [5_005, 'e'],
    ]
    expect(await store(inside, 63_000)).toMatchObject({ inserted: 0, rejected: 1 })
    expect(await claimed()).toEqual([
      [1_001, doubted[0]],
      [doubted[1], 5_005],
    ])
  },
)

it('the newest fill of a page is found at a later time', async () => {
  await store(first, 60_000)
  expect(
    await store(
      [
        [2_002, 'b'],
        [3_003, 'c'],
        [3_903, 'd'],
      ],
      61_000,
    ),
  ).toMatchObject({ inserted: 0, rejected: 1 })
  expect(await stored()).toEqual(firstStored)
})

it('a fill that stands in a page at two times is stored once, and both are in doubt', async () => {
  expect(await store([...first.slice(0, 3), [3_500, 'c'], ...first.slice(3)], 60_000)).toMatchObject({ inserted: 4 })
  expect(await stored()).toHaveLength(4)
  expect(await claimed()).toEqual([
    [1_001, 3_003],
    [3_004, 3_500],
    [3_501, 4_004],
  ])
})

it('a fill keeps its finer time, whichever live response comes first', async () => {
  const base = -(someTime % 1_000)
  const fine: Told[] = [137, 1_237, 2_337, 3_437, 4_537].map((ms) => [base + ms, String(ms)])
  const inSeconds = fine.map(([ms, id]): Told => [Math.floor((ms - base) / 1_000) * 1_000 + base, id])
  const expected = fine.map(([ms, id]) => `${ms} ${id}`)
  for (const pages of [
    [fine, inSeconds, fine],
    [inSeconds, fine, inSeconds],
  ]) {
    await test.database.pool.query('truncate market.fills, recorder.ledger')
    for (const [place, rows] of pages.entries())
      expect(await store(rows, 60_000 + place)).toMatchObject({ inserted: place === 0 ? 5 : 0, rejected: 0 })
    expect(await stored()).toEqual(expected)
  }
})

it('a page of the history that gives one another time by seconds is not used', async () => {
  await store(first, 60_000)
  const fills = rowsOf([
    [11_003, 'd'],
    [12_012, 'e'],
    [13_013, 'f'],
  ])
  const asked = { from: at(10_000), to: at(20_000) }
  const told = { other: null, reachesTo: at(0), largest: 1_000, disorderMs: 0, requestTime: at(600_000) }
  await storePastFills(test.database.db, key, { asked, fills, ...told })
  expect((await stored()).filter((row) => row.endsWith(' d'))).toEqual(['4004 d'])
})

it('a fill with another price is in doubt until a page of the history that is used shows it', async () => {
  const rows: Told[] = [...first.slice(0, 2), [3_003, 'other'], ...first.slice(2), [5_005, 'e']]
  await store(rows, 60_000)
  const wrong = rowsOf(rows).map((fill) => (fill.execId === 'c' ? { ...fill, price: '11' } : fill))
  await storeAll(test.database.db, [batchOf('fills', key, wrong, at(61_000))])
  const doubted = async () =>
    (await test.database.pool.query("select from recorder.ledger where verdict = 'disputed'")).rows.length
  const told = { other: null, reachesTo: at(0), largest: 1_000, disorderMs: 0, requestTime: at(600_000) }
  const askFor = (without: string, from = 0) => {
    const fills = rowsOf(rows.filter(([ms, id]) => id !== without && ms >= from))
    return storePastFills(test.database.db, key, { asked: { from: at(from), to: at(20_000) }, fills, ...told })
  }
  expect(await askFor('c')).toMatchObject({ refusal: 'incomplete' })
  expect(await doubted()).toBe(1)
  expect(await askFor('d')).toMatchObject({ refusal: 'incomplete' })
  expect(await doubted()).toBe(1)
  // At its edge a page may lack it without being refused.
  expect(await askFor('c', 3_000)).toMatchObject({ refusal: null })
  expect(await doubted()).toBe(1)
  expect(await askFor('')).toMatchObject({ refusal: null })
  expect(await doubted()).toBe(0)
})

it('a fill at two times does not stand for another one that is missing', async () => {
  await store(
    [
      [-5_000, 'z'],
      [10_000, 'a'],
      [20_000, 'b'],
      [30_003, 'c'],
    ],
    30_500,
  )
  await store(
    [
      [30_004, 'c'],
      [30_500, 'c2'],
    ],
    31_000,
  )
  await store(
    [
      [50_000, 'd'],
      [70_000, 'e'],
      [80_000, 'f'],
    ],
    100_000,
  )
  const prices = { open: '10', high: '10', low: '10', close: '10', quoteTurnover: '60' }
  await storeCandles(test.database.db, [aCandle({ openTime: someTime, baseVolume: '6', ...prices })])
  expect((await claimed()).some(([from, to]) => from <= 40_000 && to > 40_000)).toBe(false)
})
