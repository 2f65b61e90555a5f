import avro from 'avsc'
import { sum } from '../../market/values.js'
import type { Field, PartitionColumn } from './metadata.js'

/** Fields of a record, each with its id in Iceberg and its type. A question mark stands for an optional field. */
type Fields = Readonly<Record<string, readonly [id: number, type: AvroType]>>
type AvroType = string | object

function record(name: string, fields: Fields): object {
  return {
    type: 'record',
    name,
    fields: Object.entries(fields).map(([field, [id, type]]) =>
      typeof type === 'string' && type.endsWith('?')
        ? { name: field, 'field-id': id, type: ['null', type.slice(0, -1)], default: null }
        : { name: field, 'field-id': id, type },
    ),
  }
}

/** Returns the type of a map with numbers as keys. Avro has no such maps, so Iceberg writes lists of pairs. */
function bounds(keyId: number): object {
  const items = record(`k${keyId}_v${keyId + 1}`, { key: [keyId, 'int'], value: [keyId + 1, 'bytes'] })
  return { type: 'array', logicalType: 'map', items }
}

type Bounds = readonly { readonly key: number; readonly value: Buffer }[]

/** A file of rows. Its bounds are by field id, in Iceberg's binary form of single values. */
export interface DataFile {
  readonly content: 0
  readonly file_path: string
  readonly file_format: 'PARQUET'
  readonly partition: Readonly<Record<string, string | number>>
  readonly record_count: number
  readonly file_size_in_bytes: number
  readonly lower_bounds: Bounds
  readonly upper_bounds: Bounds
}

/** Effects of a snapshot on a file. */
export const entryStatus = { existing: 0, added: 1, deleted: 2 } as const

export interface ManifestEntry {
  readonly status: number
  readonly snapshot_id: number
  readonly sequence_number: number
  readonly file_sequence_number: number
  readonly data_file: DataFile
}

/** @param partition columns of the partitions with their ids; an `int` is a day since the epoch */
function entrySchema(partition: Readonly<Record<string, readonly [id: number, type: 'int' | 'string']>>): object {
  const columns = Object.entries(partition).map(([name, [id, type]]): [string, [number, AvroType]] => [
    name,
    [id, type === 'int' ? { type, logicalType: 'date' } : type],
  ])
  return record('manifest_entry', {
    status: [0, 'int'],
    snapshot_id: [1, 'long?'],
    sequence_number: [3, 'long?'],
    file_sequence_number: [4, 'long?'],
    data_file: [
      2,
      record('r2', {
        content: [134, 'int'],
        file_path: [100, 'string'],
        file_format: [101, 'string'],
        partition: [102, record('r102', Object.fromEntries(columns))],
        record_count: [103, 'long'],
        file_size_in_bytes: [104, 'long'],
        lower_bounds: [125, bounds(126)],
        upper_bounds: [128, bounds(129)],
      }),
    ],
  })
}

const manifestFields = {
  manifest_path: [500, 'string'],
  manifest_length: [501, 'long'],
  partition_spec_id: [502, 'int'],
  content: [517, 'int'],
  sequence_number: [515, 'long'],
  min_sequence_number: [516, 'long'],
  added_snapshot_id: [503, 'long'],
  added_files_count: [504, 'int'],
  existing_files_count: [505, 'int'],
  deleted_files_count: [506, 'int'],
  added_rows_count: [512, 'long'],
  existing_rows_count: [513, 'long'],
  deleted_rows_count: [514, 'long'],
} as const satisfies Fields

interface PartitionSummary {
  readonly contains_null: false
  readonly lower_bound: Buffer
  readonly upper_bound: Buffer
}
const summaries = {
  type: 'array',
  items: record('r508', {
    contains_null: [509, 'boolean'],
    lower_bound: [510, 'bytes?'],
    upper_bound: [511, 'bytes?'],
  }),
  'element-id': 508,
}

/** An entry for a manifest in the list of a snapshot. */
export type ListedManifest = {
  readonly [Name in keyof typeof manifestFields]: (typeof manifestFields)[Name][1] extends 'string' ? string : number
} & { readonly partitions: readonly PartitionSummary[] }

const listSchema = record('manifest_file', { ...manifestFields, partitions: [507, summaries] })

/** @param head texts for the head of the file, where Iceberg keeps the schema and partitions of a manifest */
async function writeAvro(
  schema: object,
  records: readonly unknown[],
  head: Readonly<Record<string, string>>,
): Promise<Buffer> {
  const metadata = Object.fromEntries(Object.entries(head).map(([key, text]) => [key, Buffer.from(text)]))
  const options = { codec: 'deflate', writeHeader: true, metadata }
  const encoder = new avro.streams.BlockEncoder(schema as avro.Schema, options)
  for (const one of records) encoder.write(one)
  encoder.end()
  return Buffer.concat((await encoder.toArray()) as Buffer[])
}

/** Length of the mark that ends the header and every block of an Avro file. */
const markBytes = 16

/** Reads the records of an Avro file. Throws if the file is not whole. */
export async function readAvro<Entry>(bytes: Buffer): Promise<Entry[]> {
  // The decoder does not mind an end in the middle of a block.
  const mark = bytes.subarray(-markBytes)
  const isWhole = bytes.indexOf(mark) < bytes.length - markBytes
  if (!isWhole) throw new Error('it ends in the middle')
  const decoder = new avro.streams.BlockDecoder()
  decoder.end(bytes)
  return (await decoder.toArray()) as Entry[]
}

/** Returns the bytes of a manifest. Engines read its schema and its partitions from the head. */
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
  /** Id of the snapshot that adds the manifest. */
  readonly id: number
  readonly sequence: number
}

export function listedManifest(
  entries: readonly ManifestEntry[],
  { path, bytes, partition, id, sequence }: Place,
): ListedManifest {
  const withStatus = (status: number) => entries.filter((entry) => entry.status === status)
  const rows = (status: number) => sum(withStatus(status).map((entry) => entry.data_file.record_count))
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

/** Returns the bytes of the list of a snapshot's manifests. */
export function listBytes(manifests: readonly ListedManifest[]): Promise<Buffer> {
  return writeAvro(listSchema, manifests, { 'format-version': '2' })
}
