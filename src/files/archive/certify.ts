import { isProven, streamNames } from '../../market/stream.js'
import { groupBy, sum } from '../../market/values.js'
import { type Pointers, type ShownFile, shownFiles } from '../iceberg/catalog.js'
import { publishedTable } from '../iceberg/tables.js'
import { type ArchiveReader, fileRows } from './file.js'
import { proofTables } from '../layout/proof.js'
import { RowDigest, serverRow, timeText } from '../layout/rowText.js'
import { type Day, dayEnd, daysBetween, dayStart } from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

/** Names a series. Type and interval are empty if a stream has none, and `*` stands for all symbols. */
interface SeriesName {
  readonly category: string
  readonly symbol: string
  readonly type: string
  readonly interval: string
}

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
  /** Days with files, with the digests of the wanted rows, file by file. */
  readonly days: readonly CertifiedDay[]
  /** Days of the range of which the archive has nothing. */
  readonly missing: readonly Day[]
  readonly series: readonly CertifiedSeries[]
}
interface CertifiedDay {
  readonly day: Day
  readonly rows: number
  readonly digests: readonly { readonly category: string; readonly rows: number; readonly sha256: string }[]
}
/** A row of a table of proof, by its columns. */
type ProofRow = Readonly<Record<string, string | null>>
interface CertifiedSeries extends SeriesName {
  /** Share of the range that is proven complete, from 0 to 1; null for a table without coverage. */
  readonly completeness: number | null
  /** Proven share of each incomplete day, from 0 to 1; empty for a table without coverage. */
  readonly incompleteDays: Readonly<Record<Day, number>>
  /** Seconds of the range that are complete, and in which nothing was traded. */
  readonly noTradeSeconds: number
  readonly gaps: readonly ProofRow[]
  readonly revisions: readonly ProofRow[]
  readonly restatements: readonly ProofRow[]
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
  const problems: string[] = []
  const tables: CertifiedTable[] = []
  for (const table of selection.tables) {
    const days: CertifiedDay[] = []
    const series = new SeriesProofs(selection)
    const files = await shownFiles(target, publishedTable(table), selection.pointers, selection)
    const collect = async (work: () => Promise<void>) => {
      try {
        await work()
      } catch (error) {
        if (!(error instanceof DamagedArchive)) throw error
        problems.push(error.message)
      }
    }
    for (const [day, own] of groupBy(files, (file) => file.day ?? from)) {
      await collect(async () => void days.push(await certifyDay(reader, day, own, selection)))
    }
    for (const { name } of proofTables) {
      // A restatement may have been noticed long after the time that it is about.
      const range = name === 'restatements' ? {} : selection
      const proofs = await shownFiles(target, publishedTable(name), selection.pointers, range)
      for (const file of proofs.filter(({ divider }) => divider === table)) {
        await collect(() => series.read(reader, file))
      }
    }
    const archived = new Set([...days.map(({ day }) => day), ...series.days])
    tables.push({
      table,
      rows: sum(days.map(({ rows }) => rows)),
      days: days.toSorted((a, b) => (a.day < b.day ? -1 : 1)),
      missing: daysBetween(dayStart(from), dayStart(to)).filter((day) => !archived.has(day)),
      series: series.certified(covered.has(table)),
    })
  }
  const isEmpty = tables.every((one) => one.rows === 0 && one.series.every(({ symbol }) => symbol === '*'))
  if (problems.length === 0 && isEmpty) problems.push('the archive has nothing of what is to be certified')
  return { certificate: problems.length > 0 ? null : { from, to, tables }, problems }
}

const seriesColumns = ['category', 'symbol', 'type', 'interval'] as const

/** Counts and digests the wanted rows of a day. Throws a `DamagedArchive` if a row is not as it was written. */
async function certifyDay(
  reader: ArchiveReader,
  day: Day,
  files: readonly ShownFile[],
  { isWanted }: Selection,
): Promise<CertifiedDay> {
  const digests: CertifiedDay['digests'][number][] = []
  for (const file of files) {
    const digest = new RowDigest()
    const decided = new Map<string, boolean>()
    for await (const { footer, rows, lines } of fileRows(reader, file)) {
      const indexes = seriesColumns.map((name) => footer.columns.findIndex((column) => column.name === name))
      for (const [i, row] of rows.entries()) {
        const [category = '', symbol = '', type = '', interval = ''] = indexes.map((at) => text(row[at]))
        const key = [category, symbol, type, interval].join('\t')
        const isChosen = decided.get(key) ?? isWanted({ category, symbol, type, interval })
        decided.set(key, isChosen)
        if (isChosen) digest.add(lines[i] ?? '')
      }
    }
    if (digest.rows > 0) digests.push({ category: file.divider, ...digest.sum() })
  }
  const sorted = digests.toSorted((a, b) => (`${a.category} ${a.sha256}` < `${b.category} ${b.sha256}` ? -1 : 1))
  return { day, rows: sum(digests.map((one) => one.rows)), digests: sorted }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

interface SeriesProof extends SeriesName {
  readonly coveredMs: Map<Day, number>
  noTradeMs: number
  readonly gaps: ProofRow[]
  readonly revisions: ProofRow[]
  readonly restatements: ProofRow[]
}

/** Collects what the tables of proof say of each wanted series. */
class SeriesProofs {
  /** Days with proof, of whatever series. */
  readonly days = new Set<Day>()
  readonly #found = new Map<string, SeriesProof>()

  constructor(private readonly selection: Selection) {}

  async read(reader: ArchiveReader, file: ShownFile): Promise<void> {
    const { from, to, isWanted } = this.selection
    const [first, last] = [dayStart(from), dayStart(to)]
    const day = file.day ?? from
    if (file.table !== 'restatements') this.days.add(day)
    for await (const { footer, rows } of fileRows(reader, file)) {
      const toServer = serverRow(footer.columns)
      for (const values of rows.map(toServer)) {
        const row: Record<string, string | null> = {}
        for (const [i, { name, type }] of footer.columns.entries()) {
          const value = values[i] ?? null
          row[name] = value === null ? null : certifiedText(type, value)
        }
        const { category, symbol, type, interval, stream: _, ...rest } = row
        const series = { category: category ?? '', symbol: symbol ?? '', type: type ?? '', interval: interval ?? '' }
        if (!isWanted(series)) continue
        const begin = Date.parse(rest['from_time'] ?? rest['open_time'] ?? '')
        const end = Date.parse(rest['to_time'] ?? '')
        if (file.table === 'restatements' && !(begin < last && end > first)) continue
        this.#add(file.table, series, { day, lengthMs: end - begin, row: rest })
      }
    }
  }

  #add(
    table: string,
    series: SeriesName,
    { day, lengthMs, row }: { readonly day: Day; readonly lengthMs: number; readonly row: ProofRow },
  ): void {
    const key = seriesColumns.map((name) => series[name]).join('\t')
    const nothing: SeriesProof = {
      ...series,
      coveredMs: new Map(),
      noTradeMs: 0,
      gaps: [],
      revisions: [],
      restatements: [],
    }
    const known = this.#found.get(key) ?? nothing
    this.#found.set(key, known)
    if (table === 'coverage') known.coveredMs.set(day, (known.coveredMs.get(day) ?? 0) + lengthMs)
    else if (table === 'no_trade') known.noTradeMs += lengthMs
    else if (table === 'gaps') known.gaps.push(row)
    else if (table === 'candle_revisions') known.revisions.push(row)
    else known.restatements.push(row)
  }

  certified(isCovered: boolean): CertifiedSeries[] {
    const range = daysBetween(dayStart(this.selection.from), dayStart(this.selection.to))
    const sorted = [...this.#found].toSorted(([a], [b]) => (a < b ? -1 : 1))
    return sorted.map(([, { coveredMs, noTradeMs, gaps, revisions, restatements, ...series }]) => {
      const shareOf = (day: Day) => (coveredMs.get(day) ?? 0) / (dayEnd(day) - dayStart(day))
      const total = sum(range.map(shareOf)) / range.length
      // A long candle counts for the day in which it opens, so a day may have more than its length.
      const incomplete = total >= 1 ? [] : range.filter((day) => isCovered && shareOf(day) < 1)
      return {
        ...series,
        completeness: isCovered ? rounded(Math.min(total, 1)) : null,
        incompleteDays: Object.fromEntries(incomplete.map((day) => [day, rounded(shareOf(day))])),
        noTradeSeconds: noTradeMs / 1000,
        gaps: joined(gaps),
        revisions,
        restatements,
      }
    })
  }
}

function certifiedText(type: string, value: string): string {
  if (type === 'timestamptz') return timeText(BigInt(value))
  return type === 'bool' ? String(value === 't') : value
}

/** Joins the pieces of gaps that were cut at the ends of days. */
function joined(gaps: readonly ProofRow[]): ProofRow[] {
  const found: Record<string, string | null>[] = []
  const inOrder = gaps.toSorted((a, b) => Date.parse(a['from_time'] ?? '') - Date.parse(b['from_time'] ?? ''))
  for (const gap of inOrder) {
    const last = found.findLast(
      (one) =>
        one['to_time'] === gap['from_time'] &&
        one['reason'] === gap['reason'] &&
        one['detected_at'] === gap['detected_at'],
    )
    if (last?.['state'] === gap['state'] && last !== undefined) last['to_time'] = gap['to_time'] ?? null
    else found.push({ ...gap })
  }
  return found
}

/** Rounds down, so that a share below 1 never becomes 1. */
function rounded(share: number): number {
  return Math.floor(share * 1e6) / 1e6
}
