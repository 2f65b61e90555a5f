import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Candle } from '../../../src/market/candle.js'
import { storeCandles, upsertCandles } from '../../../src/ledger/storeCandles.js'
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

test('candles of which none is stored are all there, whatever their order', async () => {
  const { db } = created.database
  const rows = candles(800, (index) => ({ close: `${index}.50` }))
  expect(await storeCandles(db, rows.toReversed())).toMatchObject({ inserted: 800 })
  expect((await stored()).map(({ close }) => close)).toEqual(rows.map(({ close }) => close))
})

test('one that stands twice, or is there already, is there once', async () => {
  const { db } = created.database
  const twice = [...candles(800), aCandle({ openTime: someTime, close: '12' })]
  expect(await storeCandles(db, twice)).toMatchObject({ inserted: 800 })
  expect(await storeCandles(db, candles(801))).toMatchObject({ inserted: 1, updated: 1 })
  expect(await stored()).toHaveLength(801)
})

test('candles of two series are refused', async () => {
  const mixed = candles(3, (index) => ({ symbol: index === 1 ? 'ETHUSDT' : 'BTCUSDT' }))
  await expect(storeCandles(created.database.db, mixed)).rejects.toThrow('several series')
})

test('somebody else who is faster costs nothing: the rest of the transaction goes on, and every candle is there once', async () => {
  const { db } = created.database
  const others = candles(1, () => ({ openTime: someTime + 150 * minuteMs, close: '12' }))
  let ours: Promise<unknown> = Promise.resolve()
  await db.transaction().execute(async (theirs) => {
    await upsertCandles(theirs, others)
    // Does not see the other one's candle, and has to wait for what becomes of it.
    ours = db.transaction().execute((trx) => storeCandles(trx, candles(800)))
    for (;;) {
      const { rows } = await created.database.pool.query('select from pg_locks where not granted')
      if (rows.length > 0) break
    }
  })
  expect(await ours).toMatchObject({ inserted: 799, updated: 1 })
  expect(await stored()).toHaveLength(800)
})

test('stored the one way or the other, the same is there', async () => {
  const { db } = created.database
  const times = fc.uniqueArray(fc.integer({ min: 0, max: 2_000 }), { minLength: 700, maxLength: 900 })
  await fc.assert(
    fc.asyncProperty(times, fc.array(fc.integer({ min: 0, max: 2_000 }), { maxLength: 3 }), async (places, before) => {
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
