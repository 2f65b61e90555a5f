import type { Config } from '../../config/resolve.js'
import { streamOptions } from '../../config/streamOptions.js'
import type { StreamDemand } from './planDemand.js'

type Kept = Partial<Pick<Config['storage']['fills'], 'retentionDays' | 'columnstoreAfterHours'>>

/** Longer than anybody plans for: beyond it nothing fills up. */
const maxDays = 36_500

/**
 * For how many days the plan's rows fit into `freeBytes`, as if none of them were stored yet; Infinity when what is kept never
 * takes that much. Rows count compressed once they are old enough where the server does that, and no more once their age is up.
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
