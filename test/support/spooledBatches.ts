import { expect } from 'vitest'
import type { Batch } from '../../src/ledger/batch.js'
import { type StreamName, streamNames } from '../../src/market/stream.js'
import { systemClock } from '../../src/runtime/clock.js'
import { DiskContent, mountDisk } from '../simulation/memoryDisk.js'
import { Spool } from '../../src/collect/queue/spool.js'

/** A batch that tells itself from others by its stream, instrument and time. */
export function spooledBatch(stream: StreamName, symbol: string, requestTime: number, row: object = {}): Batch {
  const target = { category: 'SPOT', symbol }
  return { stream, target, requestTime, receivedAt: requestTime, rows: [{ requestTime, ...row }], rejected: [] }
}

export function nameOf({ stream, target, requestTime }: Batch): string {
  return `${stream} ${(target as { readonly symbol: string }).symbol} ${requestTime}`
}

/** Everything in a spool, oldest first in each stream; the spool is empty afterwards. */
export async function drain(spool: Spool): Promise<string[]> {
  const names: string[] = []
  for (const stream of streamNames) {
    for (let segment = await spool.takeOldest(stream); segment !== null; segment = await spool.takeOldest(stream)) {
      for (const record of segment.records) {
        const batch = await spool.unpack(record)
        if (batch !== undefined) names.push(nameOf(batch))
      }
      await spool.release(segment, true)
    }
  }
  return names
}

/** Opens a spool on a disk in memory that never fails. */
export function openSoundSpool(): Promise<Spool> {
  return Spool.open({
    root: '/spool',
    maxBytes: 1_000_000,
    disk: mountDisk(new DiskContent(), {
      isFull: () => false,
      readFailure: () => undefined,
      random: () => 0.5,
      work: () => Promise.resolve(),
    }),
    clock: systemClock,
    serviceNow: () => null,
    onDamage: () => expect.unreachable('nothing is damaged'),
    onDropped: () => expect.unreachable('there is room'),
    onSetAside: () => expect.unreachable('all can be read'),
  })
}
