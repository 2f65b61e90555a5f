import { afterEach, beforeEach, expect, test } from 'vitest'
import { Lane } from '../../../../src/collect/queue/lane.js'
import type { Spool } from '../../../../src/collect/queue/spool.js'
import type { Batch } from '../../../../src/ledger/batch.js'
import type { StoreOutcome } from '../../../../src/ledger/storeBatches.js'
import { rejectedRow } from '../../../../src/market/rows.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { createFakeClock } from '../../../support/fakeClock.js'
import { openSoundSpool, spooledBatch } from '../../../support/spooledBatches.js'

interface Call {
  readonly batches: readonly Batch[]
  readonly end: (isStored: boolean) => void
}

/** Calls take no time by it, however busy the machine is. */
const standing = createFakeClock()

let calls: Call[]
let spool: Spool
let lane: Lane

beforeEach(async () => {
  calls = []
  spool = await openSoundSpool()
  const nothing = { updated: 0, unchanged: 0, rejected: 0, gapsFound: 0, lateCandles: 0, remarks: [] }
  lane = new Lane({
    stream: 'fills',
    store: (batches) =>
      new Promise<StoreOutcome[]>((resolve) => {
        const outcome = (isStored: boolean): StoreOutcome =>
          isStored ? { isStored, inserted: 1, ...nothing } : { isStored, error: new Error('connection refused') }
        calls.push({ batches, end: (isStored) => resolve(batches.map(() => outcome(isStored))) })
      }),
    spool,
    clock: standing,
    incidents: new Incidents(createLogger('silent'), standing),
    onStored: () => undefined,
  })
})
afterEach(() => spool.close())

test('a lane closes when a call fails, although another one succeeds in the same moment', async () => {
  for (const symbol of ['A', 'B', 'C']) await spool.append(spooledBatch('fills', symbol, 0))
  lane.readDisk()
  while (calls.length < 2) await systemClock.sleep(1)
  const closing = lane.close(AbortSignal.timeout(60_000))
  calls[0]?.end(false)
  calls[1]?.end(true)
  await closing
  expect(calls).toHaveLength(2)
})

test('a call stores a bounded number of rows, those that could not be understood among them', async () => {
  const rejected = Array.from({ length: 100 }, (_, row) =>
    rejectedRow({ operation: 'fills', parameters: {} }, 'broken', `${row}`),
  )
  const writing = Array.from({ length: 60 }, (_, index) =>
    lane.write({ ...spooledBatch('fills', `S${index}`, 0), rows: [], rejected }),
  )
  for (let ended = 0; ended < calls.length; ended++) {
    calls[ended]?.end(true)
    await systemClock.sleep(0)
  }
  expect(await Promise.all(writing)).not.toContain(false)
  expect(calls.length).toBeGreaterThan(2)
  expect(Math.max(...calls.map(({ batches }) => batches.length))).toBe(20)
})
