import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { openSession } from '../../../src/history/session.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { listInstruments } from '../../../src/ledger/read/instruments.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { startSimulator, type Simulator } from '../../../src/simulator/server.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { clientOf } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument } from '../../support/marketRows.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

type Options = Parameters<typeof openSession>[0]

const folder = temporaryFolder('session')
const logger = createLogger('silent')
let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
  simulator = await startSimulator({ limits: { enforce: false } })
})
afterAll(async () => {
  await simulator?.close()
  await test?.drop()
})

const open = (more: Pick<Options, 'serviceNow'> & Partial<Options>) =>
  openSession({
    db: test.database.db,
    url: test.url,
    onResponse: () => Promise.resolve(),
    openClient: () => clientOf(simulator.url, 1),
    egress: 'test',
    folder,
    settleMs: 5_000,
    clock: systemClock,
    logger,
    signal: new AbortController().signal,
    ...more,
  })

it('adds and changes, and removes nothing by one list', async () => {
  const { db } = test.database
  const known = anInstrument({ symbol: 'CUTOFFUSDT' })
  await recordInstruments(db, 'SPOT', [known], Date.now() - 60_000, { complete: true })
  const session = await open({ serviceNow: () => Date.now() })
  try {
    const { instruments } = await session.instruments(['SPOT'])
    expect(instruments.length).toBeGreaterThan(1)
    const listed = await listInstruments(db)
    expect(listed.map(({ symbol }) => symbol)).toContain('CUTOFFUSDT')
  } finally {
    await session.close()
  }
})

it('has the time of the service from the owner of the budget, whatever is recorded', async () => {
  const { pool } = test.database
  // What was backfilled ended long ago, and the clock of this machine is wrong.
  await pool.query(
    `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
     values ('candles', 'SPOT', 'BTCUSDT', 'market', '1H', 'recorded', '{[2026-01-01, 2026-01-02)}')`,
  )
  const heard = Date.now() - 8 * 3_600_000
  let isHeard = false
  const owner = await open({ serviceNow: () => (isHeard ? heard : null) })
  const follower = await open({ serviceNow: () => null })
  try {
    expect([owner.isOwner(), follower.isOwner()]).toEqual([true, false])
    const asked = follower.instruments(['SPOT'])
    isHeard = true
    expect((await asked).serviceNow).toBe(heard)
  } finally {
    await follower.close()
    await owner.close()
  }
})

it('waits for a list that nobody has read, and names one that does not come', async () => {
  const { db } = test.database
  const asked = ['SPOT', 'USDT-FUTURES'] as const
  const owner = await open({ serviceNow: () => Date.now() })
  const looks = { waiting: 0 }
  const sleep: Clock['sleep'] = (_, signal) => {
    looks.waiting++
    return systemClock.sleep(10, signal)
  }
  const follower = await open({ serviceNow: () => null, clock: { ...systemClock, sleep } })
  try {
    await owner.instruments(['SPOT'])
    await vi.waitFor(() => follower.instruments(['SPOT']), 120_000)
    await expect(follower.instruments(asked)).rejects.toThrow(/^not known yet: the list of USDT-FUTURES; .* test /)
    looks.waiting = 0
    const both = follower.instruments(asked)
    await vi.waitFor(() => expect(looks.waiting).toBeGreaterThan(0), 120_000)
    const future = anInstrument({ category: 'USDT-FUTURES', symbol: 'BTCUSDT' })
    await recordInstruments(db, 'USDT-FUTURES', [future], Date.now())
    expect((await both).instruments.map(({ category }) => category)).toContain('USDT-FUTURES')
  } finally {
    await follower.close()
    await owner.close()
  }
})
