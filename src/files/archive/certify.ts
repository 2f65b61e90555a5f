import type { MarketTable } from '../../market/stream.js'
import { loadZstd } from '../parquet/zstd.js'
import { archivedRows, type ArchiveReader } from './checkDay.js'
import { type Digests, listTableDays, type Manifest, readManifest, type SeriesProof } from './manifest.js'
import { type FileRow, RowDigest } from './rowText.js'
import { type Day, dayEnd, daysBetween, dayStart } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'

/** Names a series. Type and interval are empty if a stream has none, and `*` stands for all symbols. */
type SeriesName = Pick<SeriesProof, 'symbol' | 'type' | 'interval'> & { readonly category: string }

interface Selection {
  readonly tables: readonly string[]
  /** First day; `to` is the day after the last one. */
  readonly from: Day
  readonly to: Day
  readonly isWanted: (series: SeriesName) => boolean
  /** Ends the reading on abort. */
  readonly signal?: AbortSignal
}

/** Proof of a dataset, made from the archive alone. The same archive gives the same certificate, byte by byte. */
export interface Certificate {
  readonly from: Day
  readonly to: Day
  readonly tables: readonly CertifiedTable[]
}
export interface CertifiedTable {
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
export interface CertifiedSeries {
  readonly category: string
  readonly symbol: string
  readonly type: string
  readonly interval: string
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
const covered: ReadonlySet<string> = new Set<MarketTable>(['fills', 'candles'])

/**
 * Reads every row of the range and certifies it. The certificate is null if a part of the archive is damaged, or if
 * nothing wanted is archived. `problems` then says why.
 */
export async function certify(
  target: ArchiveTarget,
  selection: Selection,
): Promise<{ readonly certificate: Certificate | null; readonly problems: readonly string[] }> {
  const { from, to } = selection
  const reader = { target, compression: await loadZstd() }
  const range = daysBetween(dayStart(from), dayStart(to))
  const problems: string[] = []
  const tables: CertifiedTable[] = []
  for (const table of selection.tables) {
    const versions = await listTableDays(target, table)
    const days: CertifiedDay[] = []
    const series = new Map<string, GrowingSeries>()
    for (const day of range) {
      const version = versions.get(day)?.at(-1)
      if (version === undefined) continue
      try {
        const manifest = await readManifest(target, table, day, version)
        days.push(await certifyDay(reader, manifest, selection))
        for (const proof of manifest.proof.filter(selection.isWanted)) addDay(series, day, proof)
      } catch (error) {
        if (!(error instanceof DamagedArchive)) throw error
        problems.push(error.message)
      }
    }
    const known = new Set(days.map(({ day }) => day))
    tables.push({
      table,
      rows: days.reduce((sum, { rows }) => sum + rows, 0),
      days,
      missing: range.filter((day) => !known.has(day)),
      series: [...series]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, growing]) => certified(growing, range, covered.has(table))),
    })
  }
  const isEmpty = tables.every((one) => one.rows === 0 && one.series.every(({ symbol }) => symbol === '*'))
  if (problems.length === 0 && isEmpty) problems.push('the archive has nothing of what is to be certified')
  return { certificate: problems.length > 0 ? null : { from, to, tables }, problems }
}

/** Counts and digests the wanted rows of a day. Throws a `DamagedArchive` if a row is not as it was written. */
async function certifyDay(reader: ArchiveReader, manifest: Manifest, selection: Selection): Promise<CertifiedDay> {
  const isWanted = rowFilter(manifest, selection)
  const digests: [string, { rows: number; sha256: string }][] = []
  for (const category of Object.keys(manifest.digests).toSorted()) {
    const digest = new RowDigest()
    for await (const { rows, lines } of archivedRows(reader, manifest, category)) {
      selection.signal?.throwIfAborted()
      for (const [i, line] of lines.entries()) if (isWanted(rows[i] ?? [])) digest.add(line)
    }
    if (digest.rows > 0) digests.push([category, { rows: digest.rows, sha256: digest.hex() }])
  }
  const rows = digests.reduce((sum, [, one]) => sum + one.rows, 0)
  return { day: manifest.day, rows, digests: Object.fromEntries(digests) }
}

function rowFilter({ columns }: Manifest, { isWanted }: Selection): (row: FileRow) => boolean {
  const places = ['category', 'symbol', 'type', 'interval'].map((name) => columns.findIndex((one) => one.name === name))
  const known = new Map<string, boolean>()
  return (row) => {
    const [category = '', symbol = '', type = '', interval = ''] = places.map((place) => {
      const value = row[place]
      return typeof value === 'string' ? value : ''
    })
    const key = [category, symbol, type, interval].join('\t')
    const found = known.get(key) ?? isWanted({ category, symbol, type, interval })
    known.set(key, found)
    return found
  }
}

interface GrowingSeries {
  readonly key: Pick<SeriesProof, 'category' | 'symbol' | 'type' | 'interval'>
  readonly coveredMs: Map<Day, number>
  noTradeMs: number
  readonly gaps: Map<string, SeriesProof['gaps'][number]>
  readonly revisions: SeriesProof['revisions']
  readonly restatements: Map<string, SeriesProof['restatements'][number]>
}

function addDay(known: Map<string, GrowingSeries>, day: Day, proof: SeriesProof): void {
  const { category, symbol, type, interval } = proof
  const key = [category, symbol, type, interval].join('\t')
  const series = known.get(key) ?? {
    key: { category, symbol, type, interval },
    coveredMs: new Map<Day, number>(),
    noTradeMs: 0,
    gaps: new Map<string, SeriesProof['gaps'][number]>(),
    revisions: [],
    restatements: new Map<string, SeriesProof['restatements'][number]>(),
  }
  known.set(key, series)
  series.coveredMs.set(day, lengthMs(proof.coverage))
  series.noTradeMs += lengthMs(proof.noTrade)
  // A gap or a restatement over several days occurs in the proof of each day.
  for (const gap of proof.gaps) series.gaps.set(`${gap.from} ${gap.to}`, gap)
  for (const one of proof.restatements) series.restatements.set(`${one.from} ${one.to} ${one.detectedAt}`, one)
  series.revisions.push(...proof.revisions)
}

function certified(
  { key, coveredMs, noTradeMs, ...found }: GrowingSeries,
  range: readonly Day[],
  isCovered: boolean,
): CertifiedSeries {
  const shareOf = (day: Day) => (coveredMs.get(day) ?? 0) / (dayEnd(day) - dayStart(day))
  const total = range.reduce((sum, day) => sum + shareOf(day), 0)
  return {
    ...key,
    completeness: isCovered ? rounded(total / range.length) : null,
    incompleteDays: Object.fromEntries(
      range.filter((day) => isCovered && shareOf(day) < 1).map((day) => [day, rounded(shareOf(day))]),
    ),
    noTradeSeconds: noTradeMs / 1000,
    gaps: [...found.gaps.values()]
      .toSorted((a, b) => Date.parse(a.from) - Date.parse(b.from))
      .map(({ from, to, reason, state }) => ({ from, to, reason, state })),
    revisions: found.revisions,
    restatements: [...found.restatements.values()],
  }
}

/** Rounds down, so that a share below 1 never becomes 1. */
function rounded(share: number): number {
  return Math.floor(share * 1e6) / 1e6
}

function lengthMs(ranges: readonly (readonly [string, string])[]): number {
  return ranges.reduce((sum, [from, to]) => sum + Date.parse(to) - Date.parse(from), 0)
}
