import { marketTables } from '../../market/stream.js'
import { dayMs } from '../../market/values.js'
import { archivedTable, type Day, dayEnd, dayOf, dayStart, proofTables } from '../layout/tables.js'
import { fieldId } from '../parquet/columns.js'
import type { DataFile } from './manifests.js'
import type { PartitionColumn } from './metadata.js'

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

export function partitionOf({ timeColumn, divider }: PublishedTable): PartitionColumn[] {
  const days =
    timeColumn === undefined
      ? []
      : [{ name: `${timeColumn}_day`, 'field-id': 1001, 'source-id': fieldId(timeColumn), transform: 'day' as const }]
  return [...days, { name: divider, 'field-id': 1000, 'source-id': fieldId(divider), transform: 'identity' }]
}

interface PlacedFile {
  readonly divider: string
  readonly rows: number
  readonly bytes: number
  readonly symbols: readonly [string, string]
}

/** Describes a file, with the bounds that follow from its place. Engines skip files by these bounds. */
export function dataFile({ timeColumn, divider }: PublishedTable, url: string, day: Day, file: PlacedFile): DataFile {
  const bounds: [id: number, lower: Buffer, upper: Buffer][] = [
    [fieldId(divider), Buffer.from(file.divider), Buffer.from(file.divider)],
    [fieldId('symbol'), Buffer.from(file.symbols[0]), Buffer.from(file.symbols[1])],
  ]
  const partition: Record<string, string | number> = { [divider]: file.divider }
  if (timeColumn !== undefined) {
    bounds.push([fieldId(timeColumn), instant(dayStart(day), 0n), instant(dayEnd(day), -1n)])
    partition[`${timeColumn}_day`] = dayStart(day) / dayMs
  }
  return {
    content: 0,
    file_path: url,
    file_format: 'PARQUET',
    partition,
    record_count: file.rows,
    file_size_in_bytes: file.bytes,
    lower_bounds: bounds.map(([key, value]) => ({ key, value })),
    upper_bounds: bounds.map(([key, , value]) => ({ key, value })),
  }
}

/** Returns the day of a file, by its partition; null for a table that is archived whole. */
export function dayOfFile({ timeColumn }: PublishedTable, { partition }: DataFile): Day | null {
  return timeColumn === undefined ? null : dayOf(Number(partition[`${timeColumn}_day`]) * dayMs)
}

function instant(time: number, moreMicros: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(time) * 1000n + moreMicros)
  return bytes
}
