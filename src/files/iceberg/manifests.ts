import {
  entrySchema,
  entryStatus,
  type ListedManifest,
  type ManifestEntry,
  type PartitionSummary,
  writeAvro,
} from './avro.js'
import type { Field, PartitionColumn } from './metadata.js'

/** A manifest as it is stored. Engines take the schema and the partitions from its head. */
export function manifestBytes(
  entries: readonly ManifestEntry[],
  fields: readonly Field[],
  partition: readonly PartitionColumn[],
): Promise<Buffer> {
  const columns = partition.map(
    ({ name, transform, 'field-id': id }) => [name, [id, transform === 'day' ? 'int' : 'string']] as const,
  )
  return writeAvro(entrySchema(Object.fromEntries(columns)), entries, {
    schema: JSON.stringify({ type: 'struct', 'schema-id': 0, fields }),
    'schema-id': '0',
    'partition-spec': JSON.stringify(partition),
    'partition-spec-id': '0',
    'format-version': '2',
    content: 'data',
  })
}

interface Place {
  readonly path: string
  readonly bytes: number
  readonly partition: readonly PartitionColumn[]
  /** Of the snapshot that adds it. */
  readonly id: number
  readonly sequence: number
}

export function listedManifest(
  entries: readonly ManifestEntry[],
  { path, bytes, partition, id, sequence }: Place,
): ListedManifest {
  const withStatus = (status: number) => entries.filter((entry) => entry.status === status)
  const rows = (status: number) => withStatus(status).reduce((sum, entry) => sum + entry.data_file.record_count, 0)
  const sequences = entries.filter(({ status }) => status !== entryStatus.deleted).map((one) => one.sequence_number)
  return {
    manifest_path: path,
    manifest_length: bytes,
    partition_spec_id: 0,
    content: 0,
    sequence_number: sequence,
    min_sequence_number: Math.min(sequence, ...sequences),
    added_snapshot_id: id,
    added_files_count: withStatus(entryStatus.added).length,
    existing_files_count: withStatus(entryStatus.existing).length,
    deleted_files_count: withStatus(entryStatus.deleted).length,
    added_rows_count: rows(entryStatus.added),
    existing_rows_count: rows(entryStatus.existing),
    deleted_rows_count: rows(entryStatus.deleted),
    partitions: partition.map(({ name }) => summarize(entries.map((entry) => entry.data_file.partition[name] ?? ''))),
  }
}

function summarize(values: readonly (string | number)[]): PartitionSummary {
  const stored = (value: string | number) => {
    if (typeof value === 'string') return Buffer.from(value)
    const bytes = Buffer.alloc(4)
    bytes.writeInt32LE(value)
    return bytes
  }
  const isBelow = (a: string | number, b: string | number) => (typeof a === 'number' ? a < Number(b) : a < b)
  const lowest = values.reduce((least, value) => (isBelow(value, least) ? value : least))
  const highest = values.reduce((greatest, value) => (isBelow(greatest, value) ? value : greatest))
  return { contains_null: false, lower_bound: stored(lowest), upper_bound: stored(highest) }
}

/** Counts of a snapshot, as engines show and use them. */
export function summaryOf(manifests: readonly ListedManifest[], id: number): Record<string, string> {
  const sum = (all: readonly ListedManifest[], count: (one: ListedManifest) => number) =>
    all.reduce((total, one) => total + count(one), 0)
  const own = manifests.filter((one) => one.added_snapshot_id === id)
  const added = sum(own, (one) => one.added_files_count)
  const deleted = sum(own, (one) => one.deleted_files_count)
  return {
    operation: deleted === 0 ? 'append' : added === 0 ? 'delete' : 'overwrite',
    'added-data-files': String(added),
    'deleted-data-files': String(deleted),
    'total-data-files': String(sum(manifests, (one) => one.added_files_count + one.existing_files_count)),
    'total-records': String(sum(manifests, (one) => one.added_rows_count + one.existing_rows_count)),
  }
}
