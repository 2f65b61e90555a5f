import avro from 'avsc'

/** Fields of a record: the id that Iceberg gives each, and its type. A question mark stands for an optional one. */
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

/** Avro has no maps by number: Iceberg writes them as lists of pairs. */
function bounds(keyId: number): object {
  const items = record(`k${keyId}_v${keyId + 1}`, { key: [keyId, 'int'], value: [keyId + 1, 'bytes'] })
  return { type: 'array', logicalType: 'map', items }
}

type Bounds = readonly { readonly key: number; readonly value: Buffer }[]

/** A file of rows. Bounds are by field id, in Iceberg's form of single values. */
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

/** What a snapshot did to a file. */
export const entryStatus = { existing: 0, added: 1, deleted: 2 } as const

export interface ManifestEntry {
  readonly status: number
  readonly snapshot_id: number
  readonly sequence_number: number
  readonly file_sequence_number: number
  readonly data_file: DataFile
}

/** @param partition the columns of the partitions with their ids; a number is a day since the epoch */
export function entrySchema(
  partition: Readonly<Record<string, readonly [id: number, type: 'int' | 'string']>>,
): object {
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

export interface PartitionSummary {
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

/** A manifest, as the list of a snapshot has it. */
export type ListedManifest = {
  readonly [Name in keyof typeof manifestFields]: (typeof manifestFields)[Name][1] extends 'string' ? string : number
} & { readonly partitions: readonly PartitionSummary[] }

export const listSchema = record('manifest_file', { ...manifestFields, partitions: [507, summaries] })

/** @param head texts for the head of the file, where Iceberg keeps the schema and the partitions of a manifest */
export async function writeAvro(
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

/** Throws when the bytes are no whole file. */
export async function readAvro<Entry>(bytes: Buffer): Promise<Entry[]> {
  const decoder = new avro.streams.BlockDecoder()
  decoder.end(bytes)
  return (await decoder.toArray()) as Entry[]
}
