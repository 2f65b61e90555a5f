import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { inTransaction } from '../../../src/db/database.js'
import { foldRestatement, lastRevision } from '../../../src/ledger/restatements.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { standingEvidence } from '../../../src/ledger/verdicts.js'
import { verify } from '../../../src/ledger/verify.js'
import { minuteMs } from '../../../src/market/values.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { fillRanges } from '../../support/fillPages.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate recorder.ledger, recorder.candle_revision, recorder.restatement, market.fills, market.candles`.execute(
    test.database.db,
  )
})

const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const series = { ...instrument, type: 'market', interval: '1m' } as const
const start = Math.ceil(someTime / minuteMs) * minuteMs
const sinceStart = start - someTime

/** Stores a page with a fill within each second of ten minutes. */
async function storePage({ without }: { readonly without?: number } = {}): Promise<void> {
  const seconds = Array.from({ length: 600 }, (_, index) => 599 - index).filter((second) => second !== without)
  const fills = seconds.map((second) =>
    aFill({ execId: `${second}`, ts: start + second * 1_000 + 500, price: '10', size: '2' }),
  )
  await storeBatch(test.database.db, batchOf('fills', instrument, fills, start + 610_000))
}

/** Stores the candles of minutes as they were traded, or after prices were multiplied by a number. */
async function storeMinutes(minutes: readonly number[], price = 10, volume = 1_200 / price): Promise<void> {
  const values = { open: `${price}`, high: `${price}`, low: `${price}`, close: `${price}`, baseVolume: `${volume}` }
  await storeCandles(
    test.database.db,
    minutes.map((minute) => aCandle({ ...series, openTime: start + minute * minuteMs, ...values })),
  )
}
const minutes = [1, 2, 3, 4, 5, 6, 7, 8]

/** Rewrites the history as after a split of one to two, with what the service then counts in a minute. */
async function split(): Promise<void> {
  const { db } = test.database
  const before = await lastRevision(db)
  await storeMinutes(minutes, 5)
  await inTransaction(db, (trx) => foldRestatement(trx, series, before))
}

/** Ranges in seconds. */
const rangesOf = async (view: 'coverage' | 'gaps') =>
  (await fillRanges(test.database.db, view)).map((range) => range.map((ms) => (ms - sinceStart) / 1_000))
const whole = [[0.501, 599.5]]

describe('fills before a split', () => {
  it('are claimed again once the changes of their candles are known to be a restatement', async () => {
    const { db } = test.database
    await storePage()
    await storeMinutes(minutes)
    const before = await lastRevision(db)
    await storeMinutes(minutes, 5)
    expect(await rangesOf('gaps')).toEqual([[60, 540]])
    expect(await inTransaction(db, (trx) => foldRestatement(trx, series, before))).not.toBeNull()
    expect([await rangesOf('coverage'), await rangesOf('gaps')]).toEqual([whole, []])
    expect(await standingEvidence(db)).toEqual([])
    expect((await sql`select from market.gaps`.execute(db)).rows).toEqual([])
    const found = []
    for await (const { disagreements } of verify(db, () => true)) found.push(...disagreements)
    expect(found).toEqual([])
    // So they are where the candles are read once more.
    await storeMinutes(minutes, 5)
    expect(await rangesOf('coverage')).toEqual(whole)
  })

  it('are weighed against the candles before it, also where they come later', async () => {
    await storeMinutes(minutes)
    await split()
    await storePage({ without: 130 })
    expect(await rangesOf('gaps')).toEqual([[120, 180]])
    await storePage()
    expect([await rangesOf('coverage'), await rangesOf('gaps')]).toEqual([whole, []])
  })

  it('are still contradicted by a candle that changed by itself, before the split or beside it', async () => {
    await storePage()
    await storeMinutes([...minutes, 9])
    await storeMinutes([3], 10, 121)
    await storeMinutes([9], 10, 121)
    await split()
    expect(await rangesOf('gaps')).toEqual([
      [180, 240],
      [540, 600],
    ])
  })

  it('are claimed where no instrument has claims yet', async () => {
    await storeMinutes(minutes)
    await split()
    expect((await sql`select from recorder.ledger where stream = 'fills'`.execute(test.database.db)).rows).toEqual([])
  })
})
