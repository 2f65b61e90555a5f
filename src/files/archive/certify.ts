import { isProven, streamNames } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { type Pointers, type ShownFile, shownFiles, shownWithProof } from '../iceberg/catalog.js'
import { publishedTable } from '../iceberg/tables.js'
import { type ArchiveReader, fileRows } from './file.js'
import { type FileRow, RowDigest, serverRow, type StoredColumn, timeText } from '../layout/rowText.js'
import { type Day, dayEnd, daysBetween, dayStart } from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

const seriesColumns = ['category', 'symbol', 'type', 'interval'] as const
/** Names a series. Type and interval are empty if a stream has none, and `*` stands for all symbols. */
type SeriesName = Readonly<Record<(typeof seriesColumns)[number], string>>

interface Selection {
  readonly pointers: Pointers
  readonly tables: readonly string[]
  /** First day; `to` is the day after the last one. */
  readonly from: Day
  readonly to: Day
  readonly isWanted: (series: SeriesName) => boolean
  /** Ends the reading on abort. */
  readonly signal?: AbortSignal
}

/** Proof of a dataset, made from the archive alone. Equal archives give equal certificates, byte by byte. */
export interface Certificate {
  readonly from: Day
  readonly to: Day
  readonly tables: readonly CertifiedTable[]
}
interface CertifiedTable {
  readonly table: string
  /** Number of rows of the wanted series. */
  readonly rows: number
  /** Digests of the wanted rows, file by file. */
  readonly digests: readonly CertifiedFile[]
  /** Days of the range of which the archive has nothing. */
  readonly missing: readonly Day[]
  /** Series with proof. */
  readonly series: readonly CertifiedSeries[]
}
interface CertifiedFile {
  readonly day: Day
  readonly category: string
  readonly rows: number
  readonly sha256: string
}
/** A row of a table of proof, by its columns. */
type ProofRow = Record<string, string | null>
interface ProofRows {
  readonly gaps: ProofRow[]
  readonly revisions: ProofRow[]
  readonly restatements: ProofRow[]
}
interface CertifiedSeries extends SeriesName, ProofRows {
  /** Share of the range that is proven complete, from 0 to 1; null for a table without coverage. */
  readonly completeness: number | null
  /** Proven share of each incomplete day, from 0 to 1; empty for a table without coverage. */
  readonly incompleteDays: Readonly<Record<Day, number>>
}

/** Tables whose completeness is certified. For other tables, nothing is claimed between their rows. */
const covered: ReadonlySet<string> = new Set(streamNames.filter(isProven))

/**
 * Reads every row of the range and certifies it. The certificate is null if a part of the archive is damaged, or if
 * nothing wanted is archived. `problems` then says why.
 */
export async function certify(
  target: ArchiveTarget,
  selection: Selection,
): Promise<{ readonly certificate: Certificate | null; readonly problems: readonly string[] }> {
  const { from, to, signal } = selection
  const tables: CertifiedTable[] = []
  try {
    for (const table of selection.tables) tables.push(await certifyTable({ target, signal }, table, selection))
  } catch (error) {
    if (!(error instanceof DamagedArchive)) throw error
    return { certificate: null, problems: [error.message] }
  }
  const isEmpty = tables.every((one) => one.rows === 0 && one.series.every(({ symbol }) => symbol === '*'))
  if (isEmpty) return { certificate: null, problems: ['the archive has nothing of what is to be certified'] }
  return { certificate: { from, to, tables }, problems: [] }
}

interface SeriesProof extends SeriesName, ProofRows {
  readonly coveredMs: Map<Day, number>
}

/** Counts and digests the wanted rows, and collects what is proven of their series. */
async function certifyTable(reader: ArchiveReader, table: string, selection: Selection): Promise<CertifiedTable> {
  const { from, to, isWanted } = selection
  const digests: CertifiedFile[] = []
  const archived = new Set<Day>()
  /** Proven ranges of each series; null for those that are not wanted. */
  const found = new Map<string, SeriesProof | null>()
  for (const file of await filesOf(reader, table, selection)) {
    const day = file.day ?? from
    const digest = new RowDigest()
    for await (const { footer, rows, lines } of fileRows(reader, file)) {
      const places = seriesColumns.map((name) => footer.columns.findIndex((column) => column.name === name))
      const toProof = proofRow(footer.columns)
      for (const [i, row] of rows.entries()) {
        const names = places.map((at) => (row[at] ?? '') as string)
        const key = names.join('\t')
        let series = found.get(key)
        if (series === undefined) {
          const [category = '', symbol = '', type = '', interval = ''] = names
          const name = { category, symbol, type, interval }
          const nothing = { ...name, coveredMs: new Map(), gaps: [], revisions: [], restatements: [] }
          series = isWanted(name) ? nothing : null
          found.set(key, series)
        }
        if (series === null) continue
        if (file.table === table) digest.add(lines[i] ?? '')
        else addProof(series, toProof(row), { table: file.table, day, selection })
      }
    }
    if (file.table !== 'restatements') archived.add(day)
    if (digest.rows > 0) digests.push({ day, category: file.divider, ...digest.sum() })
  }
  const days = daysBetween(dayStart(from), dayStart(to))
  const series = [...found].toSorted(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, one]) => one ?? [])
  const hasProof = (one: ProofRows) => one.gaps.length + one.revisions.length + one.restatements.length > 0
  return {
    table,
    rows: sum(digests.map(({ rows }) => rows)),
    digests: digests.toSorted((a, b) => (Object.values(a).join() < Object.values(b).join() ? -1 : 1)),
    missing: days.filter((day) => !archived.has(day)),
    series: covered.has(table)
      ? series.map((one) => withShares(one, days))
      : series.filter(hasProof).map(({ coveredMs: _, ...one }) => ({ ...one, completeness: null, incompleteDays: {} })),
  }
}

/** Lists the files of a table and of the proof that is about it, day by day. */
async function filesOf({ target }: ArchiveReader, table: string, selection: Selection): Promise<ShownFile[]> {
  const { pointers } = selection
  const ofDays = await shownWithProof(target, table, pointers, selection)
  // A restatement may have been noticed long after the time that it is about.
  const restatements = await shownFiles(target, publishedTable('restatements'), pointers)
  const isOfDays = (file: ShownFile) => file.table !== 'restatements'
  return [...ofDays.filter(isOfDays), ...restatements.filter(({ divider }) => divider === table)]
}

/** Returns a function that names the values of a row of proof, after those that name its series. */
function proofRow(columns: readonly StoredColumn[]): (row: FileRow) => ProofRow {
  const toServer = serverRow(columns)
  const text = (type: string, value: string) => {
    if (type === 'timestamptz') return timeText(BigInt(value))
    return type === 'bool' ? String(value === 't') : value
  }
  return (row) => {
    const values = toServer(row)
    const named = columns.map(({ name, type }, i) => [name, values[i] == null ? null : text(type, values[i])] as const)
    return Object.fromEntries(named.slice(seriesColumns.length + 1))
  }
}

function addProof(
  { coveredMs, gaps, revisions, restatements }: SeriesProof,
  row: ProofRow,
  { table, day, selection }: { readonly table: string; readonly day: Day; readonly selection: Selection },
): void {
  const [begin, end] = [Date.parse(row['from_time'] ?? ''), Date.parse(row['to_time'] ?? '')]
  if (table === 'coverage') coveredMs.set(day, (coveredMs.get(day) ?? 0) + end - begin)
  else if (table === 'candle_revisions') revisions.push(row)
  else if (table === 'restatements') {
    if (begin < dayStart(selection.to) && end > dayStart(selection.from)) restatements.push(row)
  } else if (table === 'gaps') {
    // A gap over midnight has a piece on each day.
    const isSame = (name: string, gap: ProofRow) => gap[name] === row[name]
    const before = gaps.find(
      (gap) => gap['to_time'] === row['from_time'] && isSame('reason', gap) && isSame('detected_at', gap),
    )
    if (before === undefined) gaps.push(row)
    else before['to_time'] = row['to_time'] ?? null
  }
}

function withShares({ coveredMs, ...series }: SeriesProof, days: readonly Day[]): CertifiedSeries {
  const shareOf = (day: Day) => (coveredMs.get(day) ?? 0) / (dayEnd(day) - dayStart(day))
  const total = sum(days.map(shareOf)) / days.length
  // A long candle counts for the day in which it opens, so a day may have more than its length.
  const incomplete = total >= 1 ? [] : days.filter((day) => shareOf(day) < 1)
  return {
    ...series,
    completeness: rounded(Math.min(total, 1)),
    incompleteDays: Object.fromEntries(incomplete.map((day) => [day, rounded(shareOf(day))])),
  }
}

/** Rounds down, so that a share below 1 never becomes 1. */
function rounded(share: number): number {
  return Math.floor(share * 1e6) / 1e6
}
