import { afterAll, beforeAll, expect, it } from 'vitest'
import { dayMs, minuteMs } from '../../../src/market/values.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle } from '../../support/marketRows.js'

const noon = Date.UTC(2026, 0, 15, 12)
let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
  const at = (openTime: number, close: string) => aCandle({ openTime, close, isClosed: true })
  await storeCandles(test.database.db, [at(noon - 30 * dayMs, '7'), at(noon, '9')])
})
afterAll(() => test?.drop())

const prices = async (from: number, to: number) => {
  const { category, symbol, type, interval } = aCandle()
  const { rows } = await test.database.pool.query<{ close: string; is_filled: boolean }>(
    'select close, is_filled from market.candles_without_gaps($1, $2, $3, $4, $5, $6)',
    [category, symbol, interval, new Date(from), new Date(to), type],
  )
  return rows.map(({ close, is_filled: isFilled }) => `${close}${isFilled ? '*' : ''}`)
}

it('prices go on from the candle before, however long ago it was', async () => {
  expect(await prices(noon - 2 * minuteMs, noon + 2 * minuteMs)).toEqual(['7*', '7*', '9', '9*'])
  expect(await prices(noon + 3 * dayMs, noon + 3 * dayMs + 2 * minuteMs)).toEqual(['9*', '9*'])
  expect(await prices(noon + 60 * dayMs, noon + 60 * dayMs + minuteMs)).toEqual(['9*'])
})

it('before the first candle there is nothing', async () => {
  expect(await prices(noon - 40 * dayMs, noon - 40 * dayMs + minuteMs)).toEqual([])
})
