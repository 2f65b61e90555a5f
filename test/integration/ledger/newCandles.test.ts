import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Candle } from '../../../src/market/candle.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { insertNewCandles, upsertCandles } from '../../../src/ledger/candles.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle } from '../../support/marketRows.js'

const minuteMs = 60_000
const someTime = Date.UTC(2026, 0, 15)

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())
beforeEach(() => created.database.db.deleteFrom('market.candles').execute())

const candles = (count: number, change: (index: number) => Partial<Candle> = () => ({})) =>
  Array.from({ length: count }, (_, index) => aCandle({ openTime: someTime + index * minuteMs, ...change(index) }))
const stored = () =>
  created.database.db
    .selectFrom('market.candles')
    .select(['symbol', 'open_time', 'close', 'is_closed'])
    .orderBy('symbol')
    .orderBy('open_time')
    .execute()
const insert = (rows: readonly Candle[]) =>
  created.database.db.transaction().execute((trx) => insertNewCandles(trx, rows))

test('candles of which none is stored are inserted at once, whatever their order', async () => {
  const rows = candles(300, (index) => ({ close: `${index}.50` }))
  expect(await insert(rows.toReversed())).toBe(true)
  expect((await stored()).map(({ close }) => close)).toEqual(rows.map(({ close }) => close))
})

test('few, of two series, twice the same, or with one that is there: nothing is inserted here', async () => {
  expect(await insert(candles(10))).toBe(false)
  expect(await insert(candles(300, (index) => ({ symbol: index === 7 ? 'ETHUSDT' : 'BTCUSDT' })))).toBe(false)
  expect(await insert([...candles(300), aCandle({ openTime: someTime })])).toBe(false)
  expect(await stored()).toEqual([])
  await upsertCandles(created.database.db, [aCandle({ openTime: someTime + 299 * minuteMs })])
  expect(await insert(candles(300))).toBe(false)
  expect(await stored()).toHaveLength(1)
})

test('somebody else who is faster costs nothing: the rest of the transaction goes on, and every candle is there once', async () => {
  const { db } = created.database
  const others = candles(1, () => ({ openTime: someTime + 150 * minuteMs, close: '12' }))
  let ours: Promise<unknown> = Promise.resolve()
  await db.transaction().execute(async (theirs) => {
    await upsertCandles(theirs, others)
    // Does not see the other one's candle, and has to wait for what becomes of it.
    ours = db.transaction().execute((trx) => storeCandles(trx, candles(300)))
    for (;;) {
      const { rows } = await created.database.pool.query('select from pg_locks where not granted')
      if (rows.length > 0) break
    }
  })
  expect(await ours).toMatchObject({ inserted: 299, updated: 1 })
  expect(await stored()).toHaveLength(300)
})

test('stored the one way or the other, the same is there', async () => {
  const { db } = created.database
  const times = fc.uniqueArray(fc.integer({ min: 0, max: 900 }), { minLength: 200, maxLength: 400 })
  await fc.assert(
    fc.asyncProperty(times, fc.array(fc.integer({ min: 0, max: 900 }), { maxLength: 3 }), async (places, before) => {
      await db.deleteFrom('market.candles').execute()
      const at = (place: number, close: string) => aCandle({ openTime: someTime + place * minuteMs, close })
      const batch = places.map((place) => at(place, `${place}.25`))
      const known = [...new Set(before)].map((place) => at(place, '7'))
      if (known.length > 0) await upsertCandles(db, known)
      await db.transaction().execute((trx) => storeCandles(trx, batch))
      const one = await stored()
      await db.deleteFrom('market.candles').execute()
      if (known.length > 0) await upsertCandles(db, known)
      await upsertCandles(db, batch)
      expect(one).toEqual(await stored())
    }),
    { numRuns: 15 },
  )
})
