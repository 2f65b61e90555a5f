import type { StreamName } from '../../market/stream.js'
import { type Batch, isPlain, seriesKey } from './batch.js'

/**
 * A group is several batches of different series that one transaction stores: made of what waits, while recording. (A joined
 * batch, joinBatches.ts, is one made of several of the same series: made of what is replayed from the disk.)
 *
 * How many rows of a stream a group may have, so that a statement stays clear of the columnstore's bounds; 0: each by itself.
 */
const maxRows: Readonly<Record<StreamName, number>> = {
  instruments: 0,
  rpi_symbols: 0,
  tickers: 0,
  order_books: 64,
  rpi_order_books: 64,
  // Half of them and more are known to be stored, see NewestPages.
  fills: 2_000,
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
    const keys = new Set([seriesKey(first.batch)])
    for (const entry of waiting.slice(1)) {
      if (taken.length >= maxBatches) break
      const { batch } = entry
      const { stream } = batch
      const total = (rows.get(stream) ?? 0) + batch.rows.length
      if (!mayGoAlong(batch) || total > maxRows[stream] || keys.has(seriesKey(batch))) continue
      rows.set(stream, total)
      keys.add(seriesKey(batch))
      taken.push(entry)
    }
  }
  const gone = new Set(taken)
  waiting.splice(0, waiting.length, ...waiting.filter((entry) => !gone.has(entry)))
  return taken
}

function mayGoAlong(batch: Batch): boolean {
  return isPlain(batch) && batch.rows.length <= maxRows[batch.stream]
}
