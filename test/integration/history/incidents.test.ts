import { afterAll, beforeAll, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { fillRefusals } from '../../../src/history/fillsWalk.js'
import { repairOf } from '../../../src/history/repairs.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { recordOnly } from '../../support/recordFew.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const category = 'USDT-FUTURES'
const symbol = 'BTCUSDT'
const dataDir = temporaryFolder('incidents')
let simulator: Simulator
let database: TestDatabase

beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny', quirks: { fillsHistoryIds: 'other' } })
  database = await createTestDatabase()
})
afterAll(async () => {
  await simulator.close()
  await database.drop()
})

it('an unusable history is an incident of the recorder, so that page and status show it', async () => {
  const { db } = database.database
  const to = Math.floor(Date.now() / hourMs) * hourMs - hourMs
  const stored = simulator.world.fills(category, symbol, to - hourMs, to)
  await insertFills(
    db,
    stored.map(({ execId, execLinkId = null, price, size, side, ts }) => {
      const key = { category, symbol, execId, execLinkId, price, size, side, ts: Number(ts) } as const
      return { ...key, isRpi: null, receivedAt: Number(ts), extra: {} }
    }),
  )
  const recorder = await recordOnly('fills', { database, simulator, dataDir })
  try {
    const wanted = { from: to - hourMs / 2, to: to - hourMs / 2 + minuteMs }
    await insertWants(db, [repairOf(instrumentStream('fills', { category, symbol }), [wanted])])
    const incidents = () => recorder.collector.incidents.recent().map(({ what, message }) => ({ what, message }))
    await expect.poll(incidents).toContainEqual({ what: 'futures-fills-history', message: fillRefusals['other ids'] })
  } finally {
    await recorder.stop()
  }
})
