import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import { normalized, subtract, type TimeRange } from '../../market/timeRange.js'
import { archivedRows, type ArchiveReader } from './checkDay.js'
import { type Manifest, type ManifestColumn, seriesKey, type SeriesProof } from './manifest.js'
import { byBytes, type Snapshot } from './rows.js'
import { serverRow } from './rowText.js'
import type { ArchivedTable } from './tables.js'
import { DamagedArchive } from './target.js'

type Compare = (a: QueryRow, b: QueryRow) => number

/** Returns the order of a category's rows in a file. The rows have unique keys in this order. */
export async function archivedOrder(
  snapshot: Snapshot,
  { order }: ArchivedTable,
  columns: readonly QueryColumn[],
): Promise<Compare> {
  const parts: Compare[] = []
  for (const name of ['symbol', ...order.map((column) => column.replace(/ collate .*/, ''))]) {
    const at = columns.findIndex((column) => column.name === name)
    const compare = await textOrder(snapshot, columns[at]?.type ?? 'text')
    parts.push((a, b) => compare(a[at] ?? '', b[at] ?? ''))
  }
  return (a, b) => {
    for (const part of parts) {
      const found = part(a, b)
      if (found !== 0) return found
    }
    return 0
  }
}

async function textOrder(snapshot: Snapshot, type: string): Promise<(a: string, b: string) => number> {
  if (type === 'text') return byBytes
  if (type === 'timestamptz') return (a, b) => Number(BigInt(a) - BigInt(b))
  const labels = await snapshot.query(
    `select e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid
     where t.typname = $1 and t.typnamespace = 'market'::regnamespace order by e.enumsortorder`,
    [type],
  )
  const places = new Map(labels.map(([label], place) => [label, place]))
  return (a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0)
}

interface Merging {
  readonly reader: ArchiveReader
  readonly manifest: Manifest
  readonly category: string
  readonly columns: readonly ManifestColumn[]
  readonly order: Compare
  /** Called with the number of rows that only the archive has. */
  readonly onlyArchived: (rows: number) => void
}

/** Merges rows of the database with archived ones. If both have the same key, the database row is used. */
export async function* mergeRows(
  own: AsyncIterable<readonly QueryRow[]>,
  { reader, manifest, category, columns, order, onlyArchived }: Merging,
): AsyncGenerator<readonly QueryRow[], void> {
  const batches = archivedRows(reader, manifest, category)
  const toRow = rowsAs(manifest, columns)
  let archived: readonly QueryRow[] = []
  let at = 0
  /** Resolves to the next archived row; null at the end. */
  const next = async (): Promise<QueryRow | null> => {
    while (at === archived.length) {
      const batch = await batches.next()
      if (batch.done === true) return null
      ;[archived, at] = [batch.value.rows.map(toRow), 0]
    }
    return archived[at] ?? null
  }
  let row = await next()
  for await (const batch of own) {
    const merged: QueryRow[] = []
    for (const ownRow of batch) {
      while (row !== null && order(row, ownRow) < 0) {
        merged.push(row)
        at++
        row = at < archived.length ? (archived[at] ?? null) : await next()
      }
      if (row !== null && order(row, ownRow) === 0) {
        at++
        row = await next()
      }
      merged.push(ownRow)
    }
    onlyArchived(merged.length - batch.length)
    yield merged
  }
  while (row !== null) {
    const rest = archived.slice(at)
    onlyArchived(rest.length)
    yield rest
    at = archived.length
    row = await next()
  }
}

/** Returns a function that gives archived rows the columns of the table. Newer columns are null. */
function rowsAs({ table, day, columns: archived }: Manifest, columns: readonly ManifestColumn[]) {
  const lost = archived.find(({ name }) => !columns.some((column) => column.name === name))
  if (lost !== undefined) {
    throw new DamagedArchive(`${table} of ${day} has a column ${lost.name}, which the database does not have`)
  }
  const toServer = serverRow(archived)
  const places = columns.map(({ name }) => archived.findIndex((column) => column.name === name))
  return (row: readonly unknown[]): QueryRow => {
    const texts = toServer(row)
    return places.map((place) => (place < 0 ? null : (texts[place] ?? null)))
  }
}

/**
 * Merges two proofs of a day when each side may know only a part. The database takes precedence for ranges that it
 * knows in full, and for gaps that both know.
 */
export function mergeProof(archived: readonly SeriesProof[], own: readonly SeriesProof[]): SeriesProof[] {
  const merged = new Map(archived.map((one) => [seriesKey(one), one]))
  for (const one of own) {
    const former = merged.get(seriesKey(one))
    merged.set(seriesKey(one), former === undefined ? one : mergeSeries(former, one))
  }
  return [...merged].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, proof]) => proof)
}

type Ranges = SeriesProof['coverage']

function mergeSeries(archived: SeriesProof, own: SeriesProof): SeriesProof {
  const known = rangesOf(own.coverage)
  const merge = (name: 'empty' | 'noTrade' | 'noTradeConfirmed') =>
    textsOf([...subtract(rangesOf(archived[name]), known), ...rangesOf(own[name])])
  return {
    ...own,
    coverage: textsOf([...rangesOf(archived.coverage), ...known]),
    empty: merge('empty'),
    noTrade: merge('noTrade'),
    noTradeConfirmed: merge('noTradeConfirmed'),
    gaps: distinctGaps([...own.gaps, ...archived.gaps]),
    revisions: distinct(
      [...own.revisions, ...archived.revisions],
      (one) => `${one.openTime} ${one.revisedAt}`,
      'openTime',
    ),
    restatements: distinctRestatements([...own.restatements, ...archived.restatements]),
  }
}

/** Keeps the first of the gaps over the same range. */
export function distinctGaps(gaps: SeriesProof['gaps']): SeriesProof['gaps'] {
  return distinct(gaps, ({ from, to }) => `${from} ${to}`, 'from')
}

/** Keeps the first of equal restatements. */
export function distinctRestatements(all: SeriesProof['restatements']): SeriesProof['restatements'] {
  return distinct(all, ({ from, to, detectedAt }) => `${from} ${to} ${detectedAt}`, 'from')
}

/** Keeps the first entry of each key. Sorts the result by a time. */
function distinct<Time extends string, One extends Readonly<Record<Time, string>>>(
  all: readonly One[],
  key: (one: One) => string,
  time: Time,
): One[] {
  const found = new Map<string, One>()
  for (const one of all) if (!found.has(key(one))) found.set(key(one), one)
  return [...found.values()].toSorted((a, b) => Date.parse(a[time]) - Date.parse(b[time]))
}

function rangesOf(ranges: Ranges): TimeRange[] {
  return normalized(ranges.map(([from, to]) => ({ from: Date.parse(from), to: Date.parse(to) })))
}

/** Formats ranges as the server does, without trailing zeros in seconds. */
function textsOf(ranges: readonly TimeRange[]): Ranges {
  const text = (time: number) => new Date(time).toISOString().replace(/\.?0*Z$/, 'Z')
  return normalized(ranges).map(({ from, to }) => [text(from), text(to)])
}
