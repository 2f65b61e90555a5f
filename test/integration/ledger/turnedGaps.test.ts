import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Database } from '../../../src/db/schema.js'
import { callFunction } from '../../../src/db/database.js'
import { forget } from '../../../src/ledger/forget.js'
import { loseGaps, reopenGaps } from '../../../src/ledger/gaps.js'
import { serviceMs } from '../../../src/market/values.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { at, every, fillPage, fillRanges, storeAll } from '../../support/fillPages.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { aCandle } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

const lose = (db: Kysely<Database>) => loseGaps(db, 'fills', 'infinity', ['SPOT'])
const reopen = (db: Kysely<Database>) => reopenGaps(db, 'fills', serviceMs(0), ['SPOT'])
const price = '100.50'
const quiet = { openTime: at(60_000), open: price, high: price, low: price, close: price, baseVolume: '0.4' }

const storePage = (db: Kysely<Database>, symbol: string) =>
  storeAll(db, [fillPage(every(1_000, 20_000, 100_000), { symbol })])
const storeCandle = (db: Kysely<Database>, symbol: string) =>
  storeCandles(db, [aCandle({ ...quiet, symbol })], [], at(200_000))

it.each([
  ['a page', 'lost', lose, storePage],
  ['a page', 'open again', reopen, storePage],
  ['a candle', 'lost', lose, storeCandle],
])('%s closes a gap that becomes %s at that moment', async (what, state, turn, close) => {
  const { db } = created.database
  const symbol = [what, state].join(' ')
  await storeAll(db, [fillPage(every(1_000, 30_000, 70_000), { symbol })])
  await storeAll(db, [fillPage(every(1_000, 90_000, 160_000), { symbol })])
  await storeAll(db, [fillPage(every(1_000, 400_000, 460_000), { symbol })])
  expect(await fillRanges(db, 'gaps', symbol)).toHaveLength(2)
  if (turn === reopen) await lose(db)
  let closed: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await turn(trx)
    closed = close(db, symbol)
    await untilSomebodyWaits(trx)
  })
  await closed
  expect(await fillRanges(db, 'gaps', symbol)).toHaveLength(1)
})

it('a removal waits for a writer of a series whose first part is empty', async () => {
  const { db } = created.database
  const symbol = 'PARTS'
  await storeAll(db, [fillPage(every(1_000, 0, 300_000), { symbol })])
  const own = sql`(stream, symbol, verdict) = ('fills', ${symbol}, 'recorded')`
  await sql`insert into recorder.ledger (stream, category, symbol, verdict, part, ranges)
    select stream, category, symbol, verdict, lower(ranges), ranges from recorder.ledger where ${own}`.execute(db)
  await sql`update recorder.ledger set ranges = '{}' where ${own} and part = '-infinity'`.execute(db)
  let removing: Promise<unknown> | undefined
  await db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', ['SPOT'], [symbol])
    removing = forget(db, 'fills', new Date(at(150_000)))
    await untilSomebodyWaits(trx)
  })
  await removing
  expect((await fillRanges(db, 'coverage', symbol)).flat()[0]).toBeGreaterThanOrEqual(149_000)
})
