import { afterAll, beforeAll, expect, it } from 'vitest'
import { inTransaction } from '../../../src/db/database.js'
import { missingOfStream, storeLiquidations } from '../../../src/ledger/futures.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { serviceMs } from '../../../src/market/values.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument, someTime } from '../../support/marketRows.js'

const hourMs = 3_600_000
let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

it('what lacks before a future was listed anew is asked for, and nothing before its first launch', async () => {
  const { db } = test.database
  const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  const after = (hours: number) => serviceMs(someTime + hours * hourMs)
  const list = (launchTime: number, at: number) =>
    recordInstruments(db, future.category, [anInstrument({ ...future, launchTime: after(launchTime) })], after(at))
  await list(0, 1)
  await inTransaction(db, (trx) =>
    storeLiquidations(
      trx,
      future,
      [],
      [
        { from: after(2), to: after(3) },
        { from: after(4), to: after(5) },
      ],
    ),
  )
  const missing = async () =>
    (await missingOfStream(db, 'liquidations', after(-10))).map(({ range: { from, to } }) =>
      [from, to].map((time) => (time - someTime) / hourMs),
    )
  const lacking = [
    [0, 2],
    [3, 4],
  ]
  expect(await missing()).toEqual(lacking)
  await list(6, 7)
  expect(await missing()).toEqual(lacking)
})
