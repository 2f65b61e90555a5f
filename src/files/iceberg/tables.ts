import type { QueryRow } from '../../db/readOnlyQuery.js'
import { marketTables } from '../../market/stream.js'
import { dayMs } from '../../market/values.js'
import type { Manifest, ManifestColumn, SeriesProof } from '../archive/manifest.js'
import { archivedTable, type Day, dayEnd, dayStart } from '../archive/tables.js'
import { fieldId } from '../parquet/columns.js'
import type { DataFile } from './manifests.js'
import type { PartitionColumn } from './metadata.js'

/** A table that engines see. It is made of the manifests of archived tables, day by day. */
export interface PublishedTable {
  readonly name: string
  /** Archived tables whose days make up this table. */
  readonly sources: readonly string[]
  /** Column whose days are the partitions. Without it, each day has the whole table, and only the newest day counts. */
  readonly timeColumn?: string | undefined
  /** Second column of the partitions. A file has only one value of it. */
  readonly divider: 'category' | 'stream'
  /** Columns and rows of a table of proofs. Without it, the rows are those of the archived files. */
  readonly proof?: { readonly columns: readonly ManifestColumn[]; readonly rowsOf: (manifest: Manifest) => QueryRow[] }
}

const columnsOf = (type: string, names: readonly string[]): ManifestColumn[] => names.map((name) => ({ name, type }))
const series = ['category', 'symbol', 'stream', 'type', 'interval'] as const
const values = ['open', 'high', 'low', 'close', 'base_volume', 'quote_turnover']
const revised = ['old', 'new'].flatMap((when) => values.map((name) => `${when}_${name}`))

/** All archived tables, and the tables of their proofs. */
export const publishedTables: readonly PublishedTable[] = [
  ...marketTables.map((name): PublishedTable => {
    const { timeColumn } = archivedTable(name)
    return { name, sources: [name], timeColumn, divider: 'category' }
  }),
  rangeTable('coverage', [], (proof) => proof.coverage),
  rangeTable('no_trade', [], (proof) => proof.noTrade),
  rangeTable('gaps', columnsOf('text', ['reason', 'state']), ({ gaps }) =>
    gaps.map(({ from, to, reason, state }) => [from, to, reason, state]),
  ),
  rangeTable(
    'restatements',
    [
      ...columnsOf('numeric', ['numerator', 'denominator']),
      ...columnsOf('int8', ['candles']),
      ...columnsOf('timestamptz', ['detected_at']),
    ],
    ({ restatements }) =>
      restatements.map(({ from, to, numerator, denominator, candles, detectedAt }) => {
        return [from, to, numerator, denominator, String(candles), micros(detectedAt)]
      }),
  ),
  proofTable(
    'candle_revisions',
    [...columnsOf('timestamptz', ['open_time', 'revised_at']), ...columnsOf('numeric', revised)],
    ({ revisions }) => revisions.map((one) => [micros(one.openTime), micros(one.revisedAt), ...one.old, ...one.new]),
  ),
]

/** Cuts ranges at the ends of days, so that no time occurs on two days. */
function rangeTable(
  name: string,
  more: readonly ManifestColumn[],
  rangesOf: (proof: SeriesProof) => readonly (readonly [from: string, to: string, ...more: string[]])[],
): PublishedTable {
  const columns = [...columnsOf('timestamptz', ['from_time', 'to_time']), ...more]
  return proofTable(name, columns, (proof, day) => {
    const inDay = (time: string) => {
      if (Date.parse(time) < dayStart(day)) return String(dayStart(day) * 1000)
      return Date.parse(time) >= dayEnd(day) ? String(dayEnd(day) * 1000) : micros(time)
    }
    return rangesOf(proof).map(([from, to, ...values]) => [inDay(from), inDay(to), ...values])
  })
}

function proofTable(
  name: string,
  columns: readonly ManifestColumn[],
  rowsOf: (proof: SeriesProof, day: Day) => readonly QueryRow[],
): PublishedTable {
  return {
    name,
    sources: marketTables.filter((table) => archivedTable(table).stream !== null),
    timeColumn: columns[0]?.name,
    divider: 'stream',
    proof: {
      columns: [...columnsOf('text', series), ...columns],
      rowsOf: ({ proof, day }) =>
        proof.flatMap((one) => {
          const key = series.map((column) => (one[column] === '' ? null : one[column]))
          return rowsOf(one, day).map((row) => [...key, ...row])
        }),
    },
  }
}

/** Converts a time to microseconds since the epoch, without loss. */
function micros(time: string): string {
  const [, seconds = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(time) ?? []
  return String(Date.parse(`${seconds}Z`) * 1000 + Number(fraction.padEnd(6, '0')))
}

export function partitionOf({ timeColumn, divider }: PublishedTable): PartitionColumn[] {
  const days =
    timeColumn === undefined
      ? []
      : [{ name: `${timeColumn}_day`, 'field-id': 1001, 'source-id': fieldId(timeColumn), transform: 'day' as const }]
  return [...days, { name: divider, 'field-id': 1000, 'source-id': fieldId(divider), transform: 'identity' }]
}

interface PlacedFile {
  readonly url: string
  readonly day: Day
  readonly dividedBy: string
  readonly rows: number
  readonly bytes: number
  /** Lowest and highest symbol in the file. */
  readonly symbols: readonly [string, string]
}

/** Describes a file, with the bounds that follow from its place. Engines skip files by these bounds. */
export function dataFile({ timeColumn, divider }: PublishedTable, file: PlacedFile): DataFile {
  const bounds: [id: number, lower: Buffer, upper: Buffer][] = [
    [fieldId(divider), Buffer.from(file.dividedBy), Buffer.from(file.dividedBy)],
    [fieldId('symbol'), Buffer.from(file.symbols[0]), Buffer.from(file.symbols[1])],
  ]
  const partition: Record<string, string | number> = { [divider]: file.dividedBy }
  if (timeColumn !== undefined) {
    bounds.push([fieldId(timeColumn), instant(dayStart(file.day), 0n), instant(dayEnd(file.day), -1n)])
    partition[`${timeColumn}_day`] = dayStart(file.day) / dayMs
  }
  return {
    content: 0,
    file_path: file.url,
    file_format: 'PARQUET',
    partition,
    record_count: file.rows,
    file_size_in_bytes: file.bytes,
    lower_bounds: bounds.map(([key, value]) => ({ key, value })),
    upper_bounds: bounds.map(([key, , value]) => ({ key, value })),
  }
}

function instant(time: number, moreMicros: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(time) * 1000n + moreMicros)
  return bytes
}
