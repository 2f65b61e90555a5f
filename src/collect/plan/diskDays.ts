import type { Config } from '../../config/resolve.js'
import { streamOptions } from '../../config/streamOptions.js'
import type { StreamDemand } from './planDemand.js'

type Kept = Partial<Pick<Config['storage']['fills'], 'retentionDays' | 'columnstoreAfterHours'>>

/** Longest time to look ahead. A disk that lasts longer counts as never full. */
const maxDays = 36_500

/**
 * Number of days for which the plan's rows fit into `freeBytes`, counted from an empty database. Infinity when they
 * never take that much. Rows count compressed once they are old enough, if the server compresses. Rows beyond their
 * retention do not count.
 */
export function daysOnDisk(
  streams: readonly Pick<StreamDemand, 'stream' | 'bytesPerDay' | 'compressedBytesPerDay'>[],
  storage: Config['storage'],
  { freeBytes, isCompressed }: { readonly freeBytes: number; readonly isCompressed: boolean },
): number {
  const tables: Partial<Record<keyof Config['streams'], Kept>> = storage
  const bytesAfter = (days: number) =>
    streams.reduce((sum, { stream, bytesPerDay, compressedBytesPerDay }) => {
      const { retentionDays = Infinity, columnstoreAfterHours = Infinity } = tables[streamOptions[stream]] ?? {}
      const kept = Math.min(days, retentionDays)
      const plain = isCompressed ? Math.min(kept, columnstoreAfterHours / 24) : kept
      return sum + plain * bytesPerDay + (kept - plain) * compressedBytesPerDay
    }, 0)
  if (bytesAfter(maxDays) <= freeBytes) return Infinity
  let [fits, full] = [0, maxDays]
  while (full - fits > 0.01) {
    const middle = (fits + full) / 2
    if (bytesAfter(middle) <= freeBytes) fits = middle
    else full = middle
  }
  return fits
}
