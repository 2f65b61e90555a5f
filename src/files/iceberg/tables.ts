import { marketTables } from '../../market/stream.js'
import { dayMs } from '../../market/values.js'
import { archivedTable, type Day, dayOf, proofTables } from '../layout/tables.js'
import type { DataFile } from './manifests.js'

/** A table that engines see: an archived table, or a table of proof. */
export interface PublishedTable {
  readonly name: string
  /** Column whose days are the partitions. Absent for a table that is archived whole. */
  readonly timeColumn?: string | undefined
  /** Second column of the partitions. A file has only one value of it. */
  readonly divider: 'category' | 'stream'
}

export const publishedTables: readonly PublishedTable[] = [
  ...marketTables.map((name): PublishedTable => {
    const { timeColumn } = archivedTable(name)
    return { name, timeColumn, divider: 'category' }
  }),
  ...proofTables.map(({ name, timeColumn }): PublishedTable => ({ name, timeColumn, divider: 'stream' })),
]

export function publishedTable(name: string): PublishedTable {
  const found = publishedTables.find((table) => table.name === name)
  if (found === undefined) throw new Error(`${name} is not a table of the archive`)
  return found
}

/** Returns the archived table that a file has rows of, or the proof of. */
export function sourceOf({ table, divider }: { readonly table: string; readonly divider: string }): string {
  return publishedTable(table).divider === 'stream' ? divider : table
}

/** Returns the day of a file, by its partition; null for a table that is archived whole. */
export function dayOfFile({ timeColumn }: PublishedTable, { partition }: DataFile): Day | null {
  return timeColumn === undefined ? null : dayOf(Number(partition[`${timeColumn}_day`]) * dayMs)
}
