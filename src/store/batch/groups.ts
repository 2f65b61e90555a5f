import type { InstrumentKey } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { Batch } from './batch.js'

/** How many rows of a stream one transaction may take: a statement stays clear of the columnstore's bounds. */
const maxRows: Readonly<Partial<Record<StreamName, number>>> = {
  fills: 1_000,
  order_books: 64,
  rpi_order_books: 64,
  candles: 1_000,
}
const maxBatches = 64

/**
 * Takes from the front of `waiting` what one transaction stores: the first batch, and those behind it that may go along.
 * Rows and nothing else may, of streams whose responses bring few; never two of one instrument, because the second is judged
 * by what the first has left.
 */
export function takeGroup<Entry extends { readonly batch: Batch }>(waiting: Entry[]): Entry[] {
  const [first] = waiting
  if (first === undefined) return []
  const taken = [first]
  if (mayGoAlong(first.batch)) {
    const rows = new Map<StreamName, number>([[first.batch.stream, first.batch.rows.length]])
    const keys = new Set([keyOf(first.batch)])
    for (const entry of waiting.slice(1)) {
      if (taken.length >= maxBatches) break
      const { batch } = entry
      const { stream } = batch
      const total = (rows.get(stream) ?? 0) + batch.rows.length
      if (!mayGoAlong(batch) || total > (maxRows[stream] ?? 0) || keys.has(keyOf(batch))) continue
      rows.set(stream, total)
      keys.add(keyOf(batch))
      taken.push(entry)
    }
  }
  const gone = new Set(taken)
  waiting.splice(0, waiting.length, ...waiting.filter((entry) => !gone.has(entry)))
  return taken
}

function mayGoAlong({ stream, rows, rejected, unkept = 0, proven, gaps, isPart }: Batch): boolean {
  if (isPart || rejected.length + unkept + proven.length + gaps.length > 0) return false
  return rows.length <= (maxRows[stream] ?? -1)
}

/** Names the series that a batch of fills, books or candles is about. */
export function keyOf({ stream, target }: Batch): string {
  const { category, symbol } = target as InstrumentKey
  const { type = '', interval = '' } = target as { readonly type?: string; readonly interval?: string }
  return [stream, category, symbol, type, interval].join(' ')
}
