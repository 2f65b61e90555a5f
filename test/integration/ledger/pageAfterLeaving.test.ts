import { afterAll, beforeAll, expect, it } from 'vitest'
import { forget } from '../../../src/ledger/forget.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { rejectedRow } from '../../../src/market/rows.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { at, every, fillPage, fillRanges, storeAll } from '../../support/fillPages.js'
import { aCandle, anInstrument, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

it('a response that is stored after the list without its instrument leaves no unproven end', async () => {
  const { db } = test.database
  const other = anInstrument({ symbol: 'ETHUSDT' })
  await recordInstruments(db, 'SPOT', [anInstrument(), other], at(0), { complete: true })
  const minute = Math.ceil(someTime / minuteMs) * minuteMs
  const candle = aCandle({ type: 'mark', interval: '1m', openTime: minute })
  await storeAll(db, [fillPage(every(500, 0, 60_000), { requested: 60_100 })])
  await storeCandles(db, [candle], [], minute + minuteMs)
  await recordInstruments(db, 'SPOT', [other], at(62_000), { complete: true })
  const ends = async () => ({ claimed: await fillRanges(db, 'coverage'), gaps: await fillRanges(db, 'gaps') })
  expect(await ends()).toEqual({ claimed: [[1, 58_100]], gaps: [[58_100, 60_100]] })

  await storeAll(db, [
    fillPage(every(500, 50_000, 61_900), { requested: 62_050 }),
    fillPage(every(500, 0, 60_000), { symbol: 'ETHUSDT', requested: 60_100 }),
  ])
  const gone = { claimed: [[1, 60_050]], gaps: [[60_050, 62_050]] }
  expect(await ends()).toEqual(gone)
  expect(await fillRanges(db, 'gaps', 'ETHUSDT')).toEqual([])

  await storeCandles(db, [candle], [], minute + 2 * minuteMs + 1)
  const { rows } = await test.database.pool.query(
    `select (extract(epoch from from_time) * 1000)::bigint as since, (extract(epoch from to_time) * 1000)::bigint as until
     from market.gaps where stream = 'candles'`,
  )
  expect(rows).toEqual([{ since: minute + minuteMs, until: minute + 2 * minuteMs }])
  await recordInstruments(db, 'SPOT', [other], at(662_000), { complete: true })
  expect(await ends()).toEqual(gone)
})

it('fills of a last page that proves nothing are in the gap at the end', async () => {
  const { db } = test.database
  const [gone, other] = [anInstrument({ symbol: 'XRPUSDT' }), anInstrument({ symbol: 'ETHUSDT' })]
  await recordInstruments(db, 'SPOT', [gone, other], at(700_000), { complete: true })
  const page = (from: number, to: number) => fillPage(every(500, from, to), { symbol: 'XRPUSDT', requested: to + 100 })
  await storeAll(db, [page(0, 60_000)])
  const unread = rejectedRow({ operation: 'fills', parameters: {} }, 'no time', '{}')
  await storeAll(db, [{ ...page(50_000, 90_000), rejected: [unread] }])
  await recordInstruments(db, 'SPOT', [other], at(800_000), { complete: true })
  expect(await fillRanges(db, 'gaps', 'XRPUSDT')).toEqual([[58_100, 89_501]])
})

it('the gap at the end of a quiet instrument begins where its fills are kept', async () => {
  const { db } = test.database
  const [gone, other] = [anInstrument({ symbol: 'QUIETUSDT' }), anInstrument({ symbol: 'ETHUSDT' })]
  await recordInstruments(db, 'SPOT', [gone, other], at(900_000), { complete: true })
  const page = { symbol: 'QUIETUSDT' }
  await storeAll(db, [fillPage(every(500, 0, 60_000), { ...page, requested: 90_000 })])
  await forget(db, 'fills', new Date(at(10 * hourMs)))
  await storeAll(db, [fillPage(every(500, 0, 60_000), { ...page, requested: 20 * hourMs })])
  await recordInstruments(db, 'SPOT', [other], at(21 * hourMs), { complete: true })
  expect(await fillRanges(db, 'gaps', 'QUIETUSDT')).toEqual([[10 * hourMs, 20 * hourMs]])
})
