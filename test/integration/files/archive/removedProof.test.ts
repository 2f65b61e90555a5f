import { expect, test } from 'vitest'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { confirmNoTrade } from '../../../../src/ledger/reviews.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { archiveOfTest } from '../../../support/archiveOfTest.js'
import { archiveAll, rowsOf } from '../../../support/archives.js'
import { addCoverage } from '../../../support/coverage.js'
import { aCandle } from '../../../support/marketRows.js'
import { addNoTrade } from '../../../support/noTradeRanges.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs

const own = archiveOfTest()

test('a day keeps the proof of a candle that began on a day that was removed', async () => {
  const { db } = own.created.database
  const daily = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1D' } as const
  const opens = Array.from({ length: 9 }, (_, day) => from + day * dayMs + 16 * hourMs)
  await upsertCandles(
    db,
    opens.map((openTime) => aCandle({ ...daily, openTime })),
  )
  await addCoverage(db, { stream: 'candles', ...daily }, [
    { from: from + 16 * hourMs, to: from + 9 * dayMs + 16 * hourMs },
  ])
  await archiveAll(own.created.database, own.archive.target, now)
  const covered = async () =>
    (await rowsOf(own.archive.target, 'coverage')).filter(({ stream }) => stream === 'candles')
  const before = await covered()
  // A candle belongs to the day in which it opens, as its row does.
  expect(before.map((row) => Number(row['from_time']) / 1000)).toEqual(opens)
  expect(before.map((row) => Number(row['to_time']) / 1000)).toEqual(opens.map((open) => open + dayMs))
  const old = [{ name: 'candles', retentionDays: 5 }]
  const removed = await removeArchived(own.created.database, own.archive.target, old, { now: () => now })
  expect(removed).toMatchObject({ removed: [expect.anything()], kept: [] })
  expect((await archiveAll(own.created.database, own.archive.target, now)).written).toEqual([])
  expect(await covered()).toEqual(before)
})

test('silence over midnight is proven of either day for itself: when one leaves, the other is as it was', async () => {
  const { db } = own.created.database
  const candles = { category: 'SPOT', symbol: 'RAREUSDT', type: 'market', interval: '1H' } as const
  await upsertCandles(
    db,
    [22, 25].map((hour) => aCandle({ ...candles, openTime: from + hour * hourMs })),
  )
  const silence = { from: from + 23 * hourMs, to: from + 25 * hourMs }
  await addNoTrade(db, candles, [silence])
  await confirmNoTrade(db, candles, [silence], now)
  const first = await archiveAll(own.created.database, own.archive.target, now)
  const written = first.written.filter(({ table }) => table === 'candles').map(({ day }) => day)
  expect(written).toEqual(['2026-03-01', '2026-03-02'])
  const silent = async () =>
    (await rowsOf(own.archive.target, 'no_trade')).map((row) => [
      Number(row['from_time']) / 1000,
      Number(row['to_time']) / 1000,
      row['is_confirmed'],
    ])
  const cut = [
    [silence.from, from + dayMs, 't'],
    [from + dayMs, silence.to, 't'],
  ]
  expect(await silent()).toEqual(cut)
  const old = [{ name: 'candles', retentionDays: 9 }]
  expect((await removeArchived(own.created.database, own.archive.target, old, { now: () => now })).kept).toEqual([])
  expect((await archiveAll(own.created.database, own.archive.target, now)).written).toEqual([])
  expect(await silent()).toEqual(cut)
})
