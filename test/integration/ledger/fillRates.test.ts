import { afterAll, beforeAll, expect, it } from 'vitest'
import { insertFills } from '../../support/insertFills.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { recentFillRates } from '../../../src/ledger/read/instruments.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, anInstrument, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

it('rates are those of the newest fills, up to the newest of all; silence lowers them, and age leaves them out', async () => {
  const { db } = test.database
  const symbols = ['BUSY', 'SLOW', 'OLD', 'NONE']
  await recordInstruments(
    db,
    'SPOT',
    symbols.map((symbol) => anInstrument({ symbol })),
    someTime,
  )
  const fills = (symbol: string, count: number, everyMs: number, endedAt: number) =>
    Array.from({ length: count }, (_, i) => aFill({ symbol, execId: `${symbol} ${i}`, ts: endedAt - i * everyMs }))
  for (const page of [
    fills('BUSY', 500, 100, someTime),
    fills('SLOW', 11, 60_000, someTime - 600_000),
    fills('OLD', 50, 1_000, someTime - 4 * 86_400_000),
  ]) {
    await insertFills(db, page)
  }
  const rates = await recentFillRates(db, someTime)
  expect(rates.map(({ symbol }) => symbol)).toEqual(['BUSY', 'SLOW'])
  expect(rates[0]?.perSecond).toBeCloseTo(300 / 29.9, 9)
  expect(rates[1]?.perSecond).toBeCloseTo(11 / 1200, 9)
})
