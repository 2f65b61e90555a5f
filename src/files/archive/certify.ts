import type { ArchivedTableName } from '../../market/archivedTable.js'
import type { Manifest, SeriesProof } from './manifest.js'
import { listDays, readManifest } from './manifests.js'
import { type Day, dayEnd, daysBetween, dayStart } from './tables.js'
import type { ArchiveTarget } from './target.js'

export interface Selection {
  readonly tables: readonly string[]
  /** Half-open, by day. */
  readonly from: Day
  readonly to: Day
  readonly isWanted: (series: SeriesProof) => boolean
}

/** What an archive proves of a dataset. Made of the archive alone: whoever has the same archive gets the same, byte by byte. */
export interface Certificate {
  readonly from: Day
  readonly to: Day
  readonly tables: readonly CertifiedTable[]
}
export interface CertifiedTable {
  readonly table: string
  readonly rows: number
  /** The days that the archive has, with the digests of all their rows by category. */
  readonly days: readonly { readonly day: Day; readonly rows: number; readonly digests: Manifest['digests'] }[]
  /** Days of the range that the archive does not have. */
  readonly missing: readonly Day[]
  readonly series: readonly CertifiedSeries[]
}
export interface CertifiedSeries {
  readonly category: string
  readonly symbol: string
  readonly type: string
  readonly interval: string
  /** Share of the range that is proven to be recorded in full, from 0 to 1; null of a table for which that is not claimed. */
  readonly completeness: number | null
  /** The same of each day that is not complete; none where it is not claimed. */
  readonly incompleteDays: Readonly<Record<Day, number>>
  /** Seconds of the range that are complete, and in which nothing was traded. */
  readonly noTradeSeconds: number
  readonly gaps: readonly Pick<SeriesProof['gaps'][number], 'from' | 'to' | 'reason' | 'state'>[]
  readonly revisions: SeriesProof['revisions']
  readonly restatements: SeriesProof['restatements']
}

/** Tables that have coverage. Snapshots are all that there is of the others: of their times in between nothing is claimed. */
const covered: ReadonlySet<string> = new Set<ArchivedTableName>(['fills', 'candles'])

/** Throws when a manifest is damaged. Whether the files are those of the manifests is for `verifyArchive` to say. */
export async function certify(target: ArchiveTarget, selection: Selection): Promise<Certificate> {
  const { from, to } = selection
  const archived = await listDays(target)
  const range = daysBetween(dayStart(from), dayStart(to))
  const tables: CertifiedTable[] = []
  for (const table of selection.tables) {
    const versions = archived.get(table) ?? new Map<Day, readonly number[]>()
    const days: { day: Day; rows: number; digests: Manifest['digests'] }[] = []
    const series = new Map<string, GrowingSeries>()
    for (const day of range) {
      const version = versions.get(day)?.at(-1)
      if (version === undefined) continue
      const manifest = await readManifest(target, table, day, version)
      days.push({ day, rows: manifest.rows, digests: sorted(manifest.digests) })
      for (const proof of manifest.proof.filter(selection.isWanted)) addDay(series, day, proof)
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
  return { from, to, tables }
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
  // A gap or a restatement over several days stands in each of them.
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

/** Never up to 1 from less. */
function rounded(share: number): number {
  return Math.floor(share * 1e6) / 1e6
}

function lengthMs(ranges: readonly (readonly [string, string])[]): number {
  return ranges.reduce((sum, [from, to]) => sum + Date.parse(to) - Date.parse(from), 0)
}

function sorted(digests: Manifest['digests']): Manifest['digests'] {
  return Object.fromEntries(Object.entries(digests).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
