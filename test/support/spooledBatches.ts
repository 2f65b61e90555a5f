import type { Batch } from '../../src/ledger/batch.js'
import { type StreamName, streamNames } from '../../src/market/stream.js'
import type { Spool } from '../../src/collect/queue/spool.js'

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
