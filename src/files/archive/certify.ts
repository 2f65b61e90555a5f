import { isProven, streamNames } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { archivedRows, type ArchiveReader } from './checkDay.js'
import {
  type Digests,
  listDays,
  type Manifest,
  readManifest,
  seriesKey,
  type SeriesName,
  type SeriesProof,
} from './manifest.js'
import { distinctGaps, distinctRestatements } from './proof.js'
import { type FileRow, RowDigest } from './rowText.js'
import { type Day, dayEnd, daysBetween, dayStart } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'

interface Selection {
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
  /** Archived days, with the digests of the wanted rows by category. */
  readonly days: readonly CertifiedDay[]
  /** Days of the range that are not archived. */
  readonly missing: readonly Day[]
  readonly series: readonly CertifiedSeries[]
}
interface CertifiedDay {
  readonly day: Day
  readonly rows: number
  readonly digests: Digests
}
interface CertifiedSeries extends SeriesName {
  /** Share of the range that is proven complete, from 0 to 1; null for a table without coverage. */
  readonly completeness: number | null
  /** Proven share of each incomplete day, from 0 to 1; empty for a table without coverage. */
  readonly incompleteDays: Readonly<Record<Day, number>>
  /** Seconds of the range that are complete, and in which nothing was traded. */
  readonly noTradeSeconds: number
  readonly gaps: readonly Pick<SeriesProof['gaps'][number], 'from' | 'to' | 'reason' | 'state'>[]
  readonly revisions: SeriesProof['revisions']
  readonly restatements: SeriesProof['restatements']
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
  const { from, to } = selection
  const reader = { target, signal: selection.signal }
  const range = daysBetween(dayStart(from), dayStart(to))
  const problems: string[] = []
  const tables: CertifiedTable[] = []
  for (const table of selection.tables) {
    const versions = await listDays(target, table)
    const days: CertifiedDay[] = []
    const series = new Map<string, Map<Day, ProvenDay>>()
    for (const day of range) {
      const version = versions.get(day)?.at(-1)
      if (version === undefined) continue
      try {
        const manifest = await readManifest(target, { table, day, version })
        days.push(await certifyDay(reader, manifest, selection))
        for (const proof of manifest.proof.filter(selection.isWanted)) {
          const key = seriesKey(proof)
          series.set(key, (series.get(key) ?? new Map<Day, ProvenDay>()).set(day, provenDay(proof)))
        }
      } catch (error) {
        if (!(error instanceof DamagedArchive)) throw error
        problems.push(error.message)
      }
    }
    const archived = new Set(days.map(({ day }) => day))
    tables.push({
      table,
      rows: sum(days.map(({ rows }) => rows)),
      days,
      missing: range.filter((day) => !archived.has(day)),
      series: [...series]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, proofs]) => certified(proofs, range, covered.has(table))),
    })
  }
  const isEmpty = tables.every((one) => one.rows === 0 && one.series.every(({ symbol }) => symbol === '*'))
  if (problems.length === 0 && isEmpty) problems.push('the archive has nothing of what is to be certified')
  return { certificate: problems.length > 0 ? null : { from, to, tables }, problems }
}

/** Counts and digests the wanted rows of a day. Throws a `DamagedArchive` if a row is not as it was written. */
async function certifyDay(reader: ArchiveReader, manifest: Manifest, selection: Selection): Promise<CertifiedDay> {
  const isWanted = rowFilter(manifest, selection)
  const digests: Record<string, { rows: number; sha256: string }> = {}
  for (const category of Object.keys(manifest.digests).toSorted()) {
    const digest = new RowDigest()
    for await (const { rows, lines } of archivedRows(reader, manifest, category)) {
      for (const [i, line] of lines.entries()) if (isWanted(rows[i] ?? [])) digest.add(line)
    }
    if (digest.rows > 0) digests[category] = digest.sum()
  }
  const rows = sum(Object.values(digests).map((one) => one.rows))
  return { day: manifest.day, rows, digests }
}

function rowFilter({ columns }: Manifest, { isWanted }: Selection): (row: FileRow) => boolean {
  const indexes = ['category', 'symbol', 'type', 'interval'].map((name) =>
    columns.findIndex((one) => one.name === name),
  )
  const decided = new Map<string, boolean>()
  return (row) => {
    const [category = '', symbol = '', type = '', interval = ''] = indexes.map((index) => {
      const value = row[index]
      return typeof value === 'string' ? value : ''
    })
    const series = { category, symbol, type, interval }
    const key = seriesKey(series)
    const found = decided.get(key) ?? isWanted(series)
    decided.set(key, found)
    return found
  }
}

/** The part of a day's proof that a certificate needs. The ranges themselves would not fit into memory for a year. */
interface ProvenDay extends SeriesName, Pick<SeriesProof, 'gaps' | 'revisions' | 'restatements'> {
  readonly coveredMs: number
  readonly noTradeMs: number
}

function provenDay(proof: SeriesProof): ProvenDay {
  const { category, symbol, type, interval, gaps, revisions, restatements, coverage, noTrade } = proof
  const [coveredMs, noTradeMs] = [lengthMs(coverage), lengthMs(noTrade)]
  return { category, symbol, type, interval, gaps, revisions, restatements, coveredMs, noTradeMs }
}

/** @param proofs the proof of each day of a series, ascending */
function certified(proofs: ReadonlyMap<Day, ProvenDay>, range: readonly Day[], isCovered: boolean): CertifiedSeries {
  const all = [...proofs.values()]
  const { category = '', symbol = '', type = '', interval = '' } = all[0] ?? {}
  const shareOf = (day: Day) => (proofs.get(day)?.coveredMs ?? 0) / (dayEnd(day) - dayStart(day))
  const total = sum(range.map(shareOf))
  // A gap or a restatement over several days occurs in the proof of each day. The newest day knows most of it.
  const newestFirst = all.toReversed()
  return {
    category,
    symbol,
    type,
    interval,
    completeness: isCovered ? rounded(total / range.length) : null,
    incompleteDays: Object.fromEntries(
      range.filter((day) => isCovered && shareOf(day) < 1).map((day) => [day, rounded(shareOf(day))]),
    ),
    noTradeSeconds: sum(all.map(({ noTradeMs }) => noTradeMs)) / 1000,
    gaps: distinctGaps(newestFirst.flatMap(({ gaps }) => gaps)).map(({ from, to, reason, state }) => ({
      from,
      to,
      reason,
      state,
    })),
    revisions: all.flatMap(({ revisions }) => revisions),
    restatements: distinctRestatements(newestFirst.flatMap(({ restatements }) => restatements)),
  }
}

/** Rounds down, so that a share below 1 never becomes 1. */
function rounded(share: number): number {
  return Math.floor(share * 1e6) / 1e6
}

function lengthMs(ranges: readonly (readonly [string, string])[]): number {
  return ranges.reduce((sum, [from, to]) => sum + Date.parse(to) - Date.parse(from), 0)
}
