import { dayMs, type TimeMs } from '../../market/values.js'
import type { ExportFormat } from './files.js'
import type { ExportSource, Selection } from './source.js'

export interface ExportRequest {
  /** The relation or query, as the user gave it. */
  readonly what: string
  readonly source: ExportSource
  readonly folder: string
  readonly format: ExportFormat
  /** Half-open; only for sources that are cut into days. */
  readonly from?: TimeMs
  readonly to?: TimeMs
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
  /** From what the symbols were chosen; a later call with the same goes on, though it may know more symbols. */
  readonly symbolPatterns?: readonly string[]
  /** Begin anew in a folder that holds something else. */
  readonly isOverwriting?: boolean
}

export interface Part {
  /** A day, or `all`. */
  readonly name: string
  readonly from: TimeMs
  readonly to: TimeMs
}

export function partsOf({ source, from, to }: ExportRequest, now: TimeMs): Part[] {
  if (source.timeColumn === undefined) return [{ name: 'all', from: 0, to: now }]
  if (from === undefined || to === undefined)
    throw new Error('rows with a time are exported from one moment to another')
  const parts: Part[] = []
  for (let day = Math.floor(from / dayMs) * dayMs; day < to; day += dayMs) {
    const name = new Date(day).toISOString().slice(0, 10)
    parts.push({ name, from: Math.max(from, day), to: Math.min(to, day + dayMs) })
  }
  return parts
}

export function selectionOf(
  { categories, symbols }: ExportRequest,
  { from, to }: { readonly from: TimeMs; readonly to: TimeMs },
): Selection {
  return {
    from: new Date(from),
    to: new Date(to),
    ...(categories && { categories }),
    ...(symbols && { symbols }),
  }
}
