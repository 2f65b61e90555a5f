import { afterEach, beforeEach, expect, it } from 'vitest'
import type { FuturesCategory } from '../../../src/market/category.js'
import { bounds } from '../../../src/market/bounds.js'
import type { RowOf, VersionStream } from '../../../src/market/stream.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const at = Date.UTC(2026, 10, 20)
let test: TestDatabase
beforeEach(async () => {
  test = await createTestDatabase()
})
afterEach(() => test.drop())

type Own<Name extends VersionStream> = Omit<RowOf<Name>, 'category' | 'ts' | 'receivedAt' | 'extra'>

async function store<Name extends VersionStream>(
  stream: Name,
  target: { readonly category: FuturesCategory; readonly symbol?: string },
  time: number,
  own: readonly Own<Name>[],
  provesNothing = false,
) {
  const rows = own.map((row) => ({ category: target.category, ts: time, receivedAt: time, extra: {}, ...row }))
  const { inserted, updated, unchanged } = await storeBatch(test.database.db, {
    stream,
    target,
    rows,
    provesNothing,
    requestTime: time,
    receivedAt: time,
    rejected: [],
  })
  return { inserted, updated, unchanged }
}

const btc = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const component = (exchange: string, weight: string, equivalentPrice = '1') => ({
  symbol: 'BTCUSDT',
  exchange,
  spotPair: 'BTCUSDT',
  weight,
  equivalentPrice,
})

async function components(): Promise<string[]> {
  const rows = await test.database.db
    .selectFrom('market.index_components')
    .selectAll()
    .orderBy('exchange')
    .orderBy('valid_from')
    .execute()
  return rows.map(
    (row) => `${row.exchange} ${row.weight} ${row.valid_from - at}-${row.valid_to === null ? '' : row.valid_to - at}`,
  )
}

it('a changed list makes one version of what changed, an equal one none', async () => {
  const first = [component('A', '0.50'), component('B', '0.50')]
  expect(await store('index_components', btc, at, first)).toEqual({ inserted: 2, updated: 0, unchanged: 0 })
  // Neither a price that moves nor another spelling of a number is a change.
  const equal = [component('B', '0.5', '2'), component('A', '0.500', '3')]
  expect(await store('index_components', btc, at + 1, equal)).toEqual({ inserted: 0, updated: 0, unchanged: 2 })
  const changed = [component('A', '0.4'), component('B', '0.5'), component('C', '0.1')]
  expect(await store('index_components', btc, at + 2, changed)).toEqual({ inserted: 1, updated: 1, unchanged: 1 })
  expect(await store('index_components', btc, at + 2, changed)).toEqual({ inserted: 0, updated: 0, unchanged: 3 })
  expect(await components()).toEqual(['A 0.50 0-2', 'A 0.4 2-', 'B 0.50 0-', 'C 0.1 2-'])
})

it('what a whole list lacks is gone, and what a part of one lacks is not', async () => {
  await store('index_components', btc, at, [component('A', '0.5'), component('B', '0.5')])
  await store('index_components', btc, at + 1, [component('A', '0.5')], true)
  await store('index_components', btc, at + 2, [])
  expect(await components()).toEqual(['A 0.5 0-', 'B 0.5 0-'])
  await store('index_components', btc, at + 3, [component('A', '0.5')])
  await store('index_components', btc, at + 4, [component('A', '0.5'), component('B', '0.5')])
  expect(await components()).toEqual(['A 0.5 0-', 'B 0.5 0-3', 'B 0.5 4-'])
})

it('a list that comes late changes nothing that a later one has told', async () => {
  await store('index_components', btc, at + 5, [component('A', '0.5'), component('B', '0.5')])
  await store('index_components', btc, at + 6, [component('A', '1')])
  await store('index_components', btc, at + 3, [component('A', '0.3'), component('B', '0.7')])
  expect(await components()).toEqual(['A 0.5 5-6', 'A 1 6-', 'B 0.5 5-6'])
})

it('a row that the database refuses takes no other with it', async () => {
  const rows = [component('A', '0.5'), component('', '0.5')]
  expect(await store('index_components', btc, at, rows)).toMatchObject({ inserted: 1 })
  expect(await components()).toEqual(['A 0.5 0-'])
})

it('a row that changes with each list has so many versions in a day', async () => {
  for (let turn = 0; turn < bounds.versions + 5; turn++)
    await store('index_components', btc, at + turn, [component('A', String(turn)), component('B', '0.5')])
  const kept = await components()
  expect(kept).toHaveLength(bounds.versions + 1)
  const newest = bounds.versions + 4
  expect(kept.slice(-3)).toEqual([
    `A ${bounds.versions - 2} ${bounds.versions - 2}-${newest}`,
    `A ${newest} ${newest}-`,
    'B 0.5 0-',
  ])
})
