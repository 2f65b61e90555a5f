import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { callFunction } from '../../../src/db/database.js'
import { instrumentStream } from '../../../src/db/series.js'
import { forget } from '../../../src/ledger/forget.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { storeBatches } from '../../../src/ledger/storeBatches.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { writerOf } from '../../../src/ledger/writers.js'
import { addMs, serviceMs } from '../../../src/market/values.js'
import { createRandom } from '../../../src/simulator/world/hash.js'
import { batchOf } from '../../support/batches.js'
import { addCoverage } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { aCandle, aFill, anInstrument, someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('transactions that lock series of which some are new never wait for each other', async () => {
  const { db } = created.database
  const letters = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']
  const random = createRandom(1)
  for (let round = 0; round < 60; round++) {
    const some = () => letters.filter(() => random() < 0.5).map((letter) => `${letter}${round}`)
    const writers = Array.from({ length: 5 }, () => [some(), some(), some()])
    await Promise.all(
      writers.map(async (turns) => {
        for (const symbols of turns) {
          const categories = symbols.map(() => 'SPOT')
          await callFunction(db, 'recorder.lock_fills', categories, symbols)
        }
      }),
    )
  }
})

test('a new series is not added before those before it are locked', async () => {
  const { db } = created.database
  await callFunction(db, 'recorder.lock_fills', ['SPOT'], ['OLD'])
  let locking: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', ['SPOT'], ['OLD'])
    locking = callFunction(db, 'recorder.lock_fills', ['SPOT', 'SPOT'], ['YOUNG', 'OLD'])
    await untilSomebodyWaits(trx)
    await callFunction(trx, 'recorder.lock_fills', ['SPOT'], ['YOUNG'])
  })
  await locking
})

test('candles of several intervals never wait for fills that end the silence of one', async () => {
  const { db } = created.database
  const key = { category: 'SPOT', symbol: 'SILENT' } as const
  const quarter = { ...key, type: 'market', interval: '15m' } as const
  const quarterMs = 900_000
  const candles = [0, 3].map((place) => aCandle({ ...quarter, openTime: someTime + place * quarterMs }))
  const askedAt = someTime + 4 * quarterMs
  await storeBatches(db, [batchOf('candles', { ...quarter, settleMs: 0, limit: candles.length }, candles, askedAt)])
  const { rows } = await sql`select from market.no_trade where symbol = ${key.symbol}`.execute(db)
  expect(rows).toHaveLength(1)
  let storing: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await storeCandles(trx, candles.slice(1))
    const traded = aFill({ ...key, execId: 'silent', ts: someTime + quarterMs })
    storing = writerOf('fills')(db, [batchOf('fills', key, [traded], askedAt)])
    await untilSomebodyWaits(trx)
    await storeCandles(trx, [aCandle({ ...key, openTime: someTime })])
  })
  expect(await storing).toMatchObject([{ inserted: 1 }])
})

/** Two series in the order in which every transaction of both comes to them, which is not that of their declaration. */
const first = { category: 'COIN-FUTURES', symbol: 'ab' } as const
const second = { category: 'SPOT', symbol: 'Z' } as const
const both = [second, first]

test.each([
  ['pages of fills', () => both.map((key) => batchOf('fills', key, [aFill(key)], someTime + 60_000))],
  [
    'candles',
    () =>
      both.map((key) => {
        const series = { ...key, type: 'market', interval: '1m' } as const
        return batchOf('candles', { ...series, settleMs: 0 }, [aCandle(series)], someTime + 120_000)
      }),
  ],
  // This one comes first, because what is final is not claimed again.
  ['removals by age', null],
  ['removals for the archive', null],
])('%s of several series lock the fills of each in one order', async (what, batches) => {
  const { db } = created.database
  const range = { from: someTime + 3_600_000, to: someTime + 7_200_000 }
  for (const key of both) await addCoverage(db, instrumentStream('fills', key), [range])
  const symbols = both.map(({ symbol }) => symbol)
  await callFunction(db, 'recorder.lock_fills', ['SPOT', 'COIN-FUTURES'], symbols)
  let storing: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', [first.category], [first.symbol])
    storing =
      batches !== null
        ? storeBatches(db, batches())
        : what === 'removals by age'
          ? forget(db, 'fills', new Date(range.to))
          : callFunction(db, 'recorder.end_claims', 'fills', new Date(range.from), new Date(range.to), true)
    await untilSomebodyWaits(trx)
    const { rows } = await sql`
      select from recorder.ledger where stream = 'fills' and symbol = ${second.symbol} and verdict = 'recorded'
      for update nowait`.execute(trx)
    expect(rows).toHaveLength(1)
  })
  const stored = await storing
  if (batches !== null) expect(stored).toMatchObject([{ isStored: true }, { isStored: true }])
})

test('the fills of instruments that leave the list are locked before a gap of theirs is noted', async () => {
  const { db } = created.database
  const at = serviceMs(someTime)
  const stays = anInstrument({ symbol: 'ETHUSDT' })
  await recordInstruments(db, 'SPOT', [stays, anInstrument()], at, { complete: true })
  const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
  await storeBatches(db, [batchOf('fills', key, [aFill(key)], someTime + 10_000)])
  let leaving: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', ['SPOT'], ['BTCUSDT'])
    leaving = recordInstruments(db, 'SPOT', [stays], addMs(at, 60_000), { complete: true })
    await untilSomebodyWaits(trx)
  })
  await leaving
})

test.each([[true], [false]])(
  'a candle is compared with the first fills of a series beside it; it comes first: %s',
  async (isFirst) => {
    const { db } = created.database
    const key = { category: 'SPOT', symbol: `NEW${isFirst}` } as const
    const minute = `{[${new Date(someTime).toISOString()},${new Date(someTime + 60_000).toISOString()})}`
    const storeCandle = (trx: typeof db) =>
      storeCandles(trx, [aCandle({ ...key, openTime: someTime, baseVolume: '2' })])
    const coverFills = async (trx: typeof db) => {
      await insertFills(trx, [aFill({ ...key, ts: someTime + 1_000, size: '1' })])
      await callFunction(trx, 'recorder.cover_fills', key.category, key.symbol, minute)
    }
    const [one, other] = isFirst ? [storeCandle, coverFills] : [coverFills, storeCandle]
    let storing: Promise<unknown> | undefined
    await db.transaction().execute(async (trx) => {
      await one(trx)
      storing = other(db)
      await Promise.race([storing, untilSomebodyWaits(trx)])
    })
    await storing
    const { rows } = await sql`select from market.coverage where stream = 'fills' and symbol = ${key.symbol}`.execute(
      db,
    )
    expect(rows).toEqual([])
  },
)
