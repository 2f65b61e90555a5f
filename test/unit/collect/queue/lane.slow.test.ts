import { expect, test } from 'vitest'
import { Queue } from '../../../../src/collect/queue/queue.js'
import { createStats } from '../../../../src/collect/streams/stream.js'
import type { Batch } from '../../../../src/ledger/batch.js'
import type { StoreOutcome } from '../../../../src/ledger/storeBatches.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'
import { createFakeClock } from '../../../support/fakeClock.js'
import { spooledBatch } from '../../../support/spooledBatches.js'

interface Call {
  readonly startedMs: number
  readonly symbols: readonly string[]
  readonly end: () => void
}

test('a slow database has two calls younger than 2 s at most; one that takes longer keeps no other from trying', async () => {
  const clock = createFakeClock()
  const startedMs = clock.monotonicMs()
  const underWay = new Set<Call>()
  const areYoung = () => [...underWay].filter((call) => clock.monotonicMs() - call.startedMs < 2_000).length
  let mostYoung = 0
  const store = (batches: readonly Batch[]) =>
    new Promise<StoreOutcome[]>((resolve) => {
      const nothing = { updated: 0, unchanged: 0, rejected: 0, gapsFound: 0, lateCandles: 0, remarks: [] }
      const call: Call = {
        startedMs: clock.monotonicMs(),
        symbols: batches.map(({ target }) => (target as { readonly symbol: string }).symbol),
        end() {
          underWay.delete(call)
          resolve(batches.map(() => ({ isStored: true, inserted: 1, ...nothing })))
        },
      }
      underWay.add(call)
      mostYoung = Math.max(mostYoung, areYoung())
    })
  const end = (symbol: string) => [...underWay].find(({ symbols }) => symbols.includes(symbol))?.end()
  /** The disk packs responses in real time, and the clock stands meanwhile. */
  const until = async (ms: number) => {
    while (clock.monotonicMs() < startedMs + ms) {
      await clock.advance(10)
      while (queue.backlog().isSpooling) await systemClock.sleep(1)
    }
  }
  const queue = await Queue.open(
    { store, recordGap: () => Promise.resolve() },
    {
      root: '/spool',
      maxBytes: 1_000_000,
      disk: mountDisk(new DiskContent(), {
        isFull: () => true,
        readFailure: () => undefined,
        random: () => 0.5,
        work: () => Promise.resolve(),
      }),
      clock,
      serviceNow: () => null,
      stats: createStats(),
      incidents: new Incidents(createLogger('silent'), clock),
      onDamage: () => expect.unreachable('nothing is damaged'),
    },
  )
  const write = (symbol: string) => void queue.write(spooledBatch('fills', symbol, 0))
  write('A')
  write('B')
  // Both have taken 2 s, and the disk refuses them. They wait until their calls have ended.
  await until(2_100)
  write('C')
  await until(2_500)
  end('A')
  end('B')
  await until(2_600)
  write('D')
  // A and B have waited for 2 s again. Both calls under way have taken less.
  await until(4_050)
  expect([areYoung(), mostYoung]).toEqual([2, 2])
  // Now both of them have taken 2 s, and D has its turn.
  await until(4_600)
  // A and B were packed for the disk side by side, so either may be the first.
  expect([...underWay].map(({ symbols }) => symbols.toSorted())).toEqual([['C'], ['A', 'B'], ['D']])
  expect(mostYoung).toBe(2)
  for (const call of underWay) call.end()
  await queue.close(AbortSignal.timeout(10_000))
})
