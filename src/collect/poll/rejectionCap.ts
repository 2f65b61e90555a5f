import type { RejectedRow } from '../../market/rejectedRow.js'
import type { StreamName } from '../../market/stream.js'
import { hourMs, type TimeMs } from '../../market/values.js'
import type { Batch } from '../../ledger/batch.js'

/** Rejected rows that are kept of one stream in an hour; what is beyond is only counted. */
const rejectedRowsPerHour = 1_000

/**
 * Bounds what rejected rows take of the disk, whatever the service sends. A row that comes again and again is stored once and
 * counts once.
 */
export class RejectionCap {
  readonly #seen = new Map<StreamName, { readonly hour: number; readonly digests: Set<string> }>()

  /** Takes from a batch the rejected rows that are too many in the hour of `at`. */
  apply<Target, Row>(batch: Batch<Target, Row>, at: TimeMs): Batch<Target, Row> {
    if (batch.rejected.length === 0) return batch
    const digests = this.#digestsOf(batch.stream, at)
    const rejected: RejectedRow[] = []
    let unkept = batch.unkept ?? 0
    for (const row of batch.rejected) {
      if (isAdmitted(digests, row)) rejected.push(row)
      else if (row.isRowStored !== true) unkept += 1
    }
    return { ...batch, rejected, unkept }
  }

  #digestsOf(stream: StreamName, at: TimeMs): Set<string> {
    const hour = Math.floor(at / hourMs)
    const known = this.#seen.get(stream)
    if (known?.hour === hour) return known.digests
    const digests = new Set<string>()
    this.#seen.set(stream, { hour, digests })
    return digests
  }
}

function isAdmitted(digests: Set<string>, { rawSha256, reason }: RejectedRow): boolean {
  const digest = `${rawSha256} ${reason}`
  if (digests.size >= rejectedRowsPerHour) return digests.has(digest)
  digests.add(digest)
  return true
}
