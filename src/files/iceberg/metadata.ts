import { dayMs } from '../../market/values.js'
import { randomName } from '../../runtime/randomness.js'
import type { ParquetColumn } from '../parquet/columns.js'

export interface Field {
  readonly id: number
  readonly name: string
  readonly required: false
  readonly type: string | { readonly type: 'list'; readonly 'element-id': number; readonly [key: string]: unknown }
}

export interface PartitionColumn {
  readonly name: string
  readonly 'field-id': number
  readonly 'source-id': number
  readonly transform: 'day' | 'identity'
}

interface Timed {
  readonly 'timestamp-ms': number
}
interface Snapshot extends Timed {
  readonly 'snapshot-id': number
  readonly 'manifest-list': string
  readonly summary: Readonly<Record<string, string>>
}

/** Stored metadata of a table. Only fields that are read again have a type here. */
export interface TableMetadata {
  readonly location: string
  readonly 'table-uuid': string
  readonly 'last-sequence-number': number
  readonly 'last-updated-ms': number
  readonly 'last-column-id': number
  readonly 'current-schema-id': number
  readonly schemas: readonly { readonly 'schema-id': number; readonly fields: readonly Field[] }[]
  readonly 'current-snapshot-id': number
  readonly snapshots: readonly Snapshot[]
  readonly 'metadata-log': readonly (Timed & { readonly 'metadata-file': string })[]
  readonly properties: Readonly<Record<string, string>>
}

/** Property of a table with the columns of its files, as JSON. */
export const columnsProperty = 'market-recorder.columns'

export function currentSnapshot({ snapshots, 'current-snapshot-id': id }: TableMetadata): Snapshot {
  const found = snapshots.find((one) => one['snapshot-id'] === id)
  if (found === undefined) throw new Error('it does not have its current snapshot')
  return found
}

export function currentFields({ schemas, 'current-schema-id': id }: TableMetadata): readonly Field[] {
  return schemas.find((one) => one['schema-id'] === id)?.fields ?? []
}

/** Columns that readers of a table look for. */
export interface TableColumns {
  readonly fields: readonly Field[]
  /** Names of those that every file has. Files that were written before a column was added lack it. */
  readonly required: ReadonlySet<string>
}

/** Returns which column of a file readers would not find, or would misread; null if there is none. */
export function fieldProblem(found: readonly Field[], { fields, required }: TableColumns): string | null {
  for (const name of required) if (!found.some((field) => field.name === name)) return `has no column ${name}`
  for (const field of found) {
    const expected = fields.find(({ name }) => name === field.name)
    if (expected === undefined) return `has a column ${field.name}, which nobody looks for`
    const [type, other] = [typeText(field), typeText(expected)]
    if (type !== other) return `has ${field.name} as ${type}, not as ${other}`
    if (idsOf(field).join() !== idsOf(expected).join()) return `has ${field.name} under another field id`
  }
  return null
}

function typeText({ type }: Field): string {
  return typeof type === 'string' ? type : `list<${String(type['element'])}>`
}

interface NewSnapshot {
  readonly id: number
  readonly now: number
  readonly location: string
  readonly fields: readonly Field[]
  readonly partition: readonly PartitionColumn[]
  readonly manifestList: string
  readonly summary: Readonly<Record<string, string>>
  /** Columns of the files, as JSON. */
  readonly columns: string
  /** Days for which superseded snapshots are kept. */
  readonly snapshotDays: number
}

/** Adds a snapshot to a table's metadata. Leaves out snapshots superseded long ago, but keeps their files. */
export function nextMetadata(
  base: { readonly url: string; readonly metadata: TableMetadata } | null,
  { id, now, location, fields, partition, manifestList, summary, columns, snapshotDays }: NewSnapshot,
): TableMetadata {
  const before = base?.metadata
  // Iceberg refuses snapshots that are out of order, and a clock may have been set back.
  const time = Math.max(now, (before?.['last-updated-ms'] ?? 0) + 1)
  const sequence = (before?.['last-sequence-number'] ?? 0) + 1
  const isKept = (_: Timed, i: number, all: readonly Timed[]) =>
    (all[i + 1]?.['timestamp-ms'] ?? time) > time - snapshotDays * dayMs
  const text = JSON.stringify(fields)
  const existing = before?.schemas.find((one) => JSON.stringify(one.fields) === text)
  const schema = existing ?? { type: 'struct', 'schema-id': before?.schemas.length ?? 0, fields }
  const snapshot = {
    'snapshot-id': id,
    ...(before !== undefined && { 'parent-snapshot-id': before['current-snapshot-id'] }),
    'sequence-number': sequence,
    'timestamp-ms': time,
    'manifest-list': manifestList,
    summary,
    'schema-id': schema['schema-id'],
  }
  const snapshots = [...(before?.snapshots ?? []), snapshot].filter(isKept)
  const former = base === null ? [] : [{ 'metadata-file': base.url, 'timestamp-ms': base.metadata['last-updated-ms'] }]
  const more = {
    'format-version': 2,
    'default-spec-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: partition }],
    'last-partition-id': Math.max(...partition.map((one) => one['field-id'])),
    'default-sort-order-id': 0,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    refs: { main: { 'snapshot-id': id, type: 'branch' } },
    'snapshot-log': snapshots.map((one) => ({
      'snapshot-id': one['snapshot-id'],
      'timestamp-ms': one['timestamp-ms'],
    })),
  }
  return {
    ...more,
    location,
    'table-uuid': before?.['table-uuid'] ?? randomName(16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    'last-sequence-number': sequence,
    'last-updated-ms': time,
    'last-column-id': Math.max(before?.['last-column-id'] ?? 0, ...fields.flatMap(idsOf)),
    'current-schema-id': schema['schema-id'],
    schemas: [...(before?.schemas ?? []), ...(existing === undefined ? [schema] : [])],
    'current-snapshot-id': id,
    snapshots,
    properties: {
      'schema.name-mapping.default': JSON.stringify(fields.map(nameMapping)),
      [columnsProperty]: columns,
    },
    'metadata-log': [...(before?.['metadata-log'] ?? []), ...former].filter(isKept),
  }
}

/** Maps names of columns to field ids, for files that were written without ids. */
function nameMapping({ id, name, type }: Field): object {
  const element = typeof type === 'string' ? {} : { fields: [{ 'field-id': type['element-id'], names: ['element'] }] }
  return { 'field-id': id, names: [name], ...element }
}

function idsOf({ id, type }: Field): number[] {
  return typeof type === 'string' ? [id] : [id, type['element-id']]
}

/** Describes a column of the files in Iceberg's terms. */
export function fieldOf({ name, schema: [top, , element] }: Pick<ParquetColumn, 'name' | 'schema'>): Field {
  const id = top?.field_id ?? 0
  if (top?.converted_type !== 'LIST') return { id, name, required: false, type: primitive(top) }
  const list = { 'element-id': element?.field_id ?? 0, element: primitive(element), 'element-required': false }
  return { id, name, required: false, type: { type: 'list', ...list } }
}

const primitives: Readonly<Record<string, string>> = {
  INT32: 'int',
  INT64: 'long',
  DOUBLE: 'double',
  BOOLEAN: 'boolean',
}

function primitive(element: ParquetColumn['schema'][number] | undefined): string {
  const { type = '', converted_type: meaning, precision, scale } = element ?? {}
  if (meaning === 'DECIMAL') return `decimal(${precision}, ${scale})`
  if (meaning === 'TIMESTAMP_MICROS') return 'timestamptz'
  return meaning === 'UTF8' ? 'string' : (primitives[type] ?? type)
}
