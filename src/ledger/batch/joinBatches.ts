import { type Fill, fillsPerPage } from '../../market/fill.js'
import { type Batch, isPlain, seriesKey } from './batch.js'

/** A batch made of several, which says the same as they did one after the other. */
export interface JoinedBatch {
  readonly whole: Batch
  readonly parts: readonly Batch[]
}

const maxParts = 64
const maxRows = 400

/** Batches with the same key may be joined, and depend on each other's order; null for those that are stored alone. */
export function joinKey(batch: Batch): string | null {
  const { stream } = batch
  if (stream === 'order_books' || stream === 'rpi_order_books') return stream
  return stream === 'fills' ? seriesKey(batch) : null
}

/**
 * Adds a batch to others with the same key, so that one transaction stores what would have taken many. Order books have one
 * row each, which stands for itself. Full responses with fills are unbroken runs: two that share a fill are one longer run,
 * which proves what both did. Null when it cannot be added.
 */
export function join({ whole, parts }: JoinedBatch, next: Batch): JoinedBatch | null {
  if (parts.length >= maxParts || whole.rows.length >= maxRows || !isPlain(whole) || !isPlain(next)) return null
  if (whole.stream !== 'fills')
    return { whole: { ...whole, rows: [...whole.rows, ...next.rows] }, parts: [...parts, next] }
  if (whole.rows.length < fillsPerPage || next.rows.length < fillsPerPage) return null
  const known = new Set((whole.rows as readonly Fill[]).map(identity))
  const added = (next.rows as readonly Fill[]).filter((fill) => !known.has(identity(fill)))
  if (added.length === next.rows.length) return null
  return { whole: { ...next, rows: [...whole.rows, ...added] }, parts: [...parts, next] }
}

function identity({ ts, execId }: Fill): string {
  return `${ts} ${execId}`
}
