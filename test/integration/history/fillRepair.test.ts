import { afterAll, beforeAll, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import { OperationStates } from '../../../src/history/reach.js'
import { FillRepair } from '../../../src/history/repairs.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { wantedRanges } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())

it('goes through six hundred gaps that were found at the same moment in two looks', async () => {
  const { db, pool } = test.database
  const now = Date.UTC(2026, 10, 20)
  const series = instrumentStream('fills', { category: 'USDT-FUTURES', symbol: 'BTCUSDT' })
  for (let number = 0; number < 600; number++) {
    const from = now - hourMs - number * minuteMs
    await recordGap(db, { ...series, range: { from, to: from + 1 }, reason: 'away' })
  }
  await pool.query(`update recorder.ledger set noted_at = '2026-11-19 12:00:00.000456Z'`)
  const states = new OperationStates(systemClock)
  states.note('futures-fills-history', 'present')
  const repair = new FillRepair({ db, isOwn: () => true, states, clock: { ...systemClock, now: () => now } })
  await repair.look()
  expect(await wantedRanges(db, 'BTCUSDT')).toHaveLength(500)
  await repair.look()
  expect(await wantedRanges(db, 'BTCUSDT')).toHaveLength(600)
})
