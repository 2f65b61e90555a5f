import type { Batch } from '../../src/ledger/batch.js'
import type { StreamName } from '../../src/market/stream.js'

/** A response as the collector hands it to the ledger. */
export function batchOf(stream: StreamName, target: unknown, rows: readonly unknown[], requestTime: number): Batch {
  return { stream, target, requestTime, receivedAt: requestTime, rows, rejected: [] }
}
