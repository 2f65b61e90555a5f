import { expect, test } from 'vitest'
import { Lane } from '../../../../src/collect/queue/lane.js'
import { Spool } from '../../../../src/collect/queue/spool.js'
import type { StoreOutcome } from '../../../../src/ledger/storeBatches.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'
import { spooledBatch } from '../../../support/spooledBatches.js'

test('a lane closes when a call fails, although another one succeeds in the same moment', async () => {
  const calls: ((isStored: boolean) => void)[] = []
  const store = () =>
    new Promise<StoreOutcome[]>((resolve) => {
      const nothing = { updated: 0, unchanged: 0, rejected: 0, gapsFound: 0, turnedUp: 0, remarks: [] }
      calls.push((isStored) =>
        resolve([
          isStored ? { isStored, inserted: 1, ...nothing } : { isStored, error: new Error('connection refused') },
        ]),
      )
    })
  const spool = await Spool.open({
    root: '/spool',
    maxBytes: 1_000_000,
    disk: mountDisk(new DiskContent(), {
      isFull: () => false,
      readFailure: () => undefined,
      random: () => 0.5,
      work: () => Promise.resolve(),
    }),
    clock: systemClock,
    onDamage: () => expect.unreachable('nothing is damaged'),
    onDropped: () => expect.unreachable('there is room'),
    onSetAside: () => expect.unreachable('all can be read'),
  })
  for (const symbol of ['A', 'B', 'C']) await spool.append(spooledBatch('fills', symbol, 0))
  const lane = new Lane({
    stream: 'fills',
    store,
    spool,
    clock: systemClock,
    incidents: new Incidents(createLogger('silent'), systemClock),
    onStored: () => undefined,
  })
  lane.readDisk()
  while (calls.length < 2) await systemClock.sleep(1)
  const closing = lane.close(AbortSignal.timeout(60_000))
  calls[0]?.(false)
  calls[1]?.(true)
  await closing
  expect(calls).toHaveLength(2)
  await spool.close()
})
