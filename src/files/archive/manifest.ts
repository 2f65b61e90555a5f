import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type MarketTable, marketTables } from '../../market/stream.js'
import { categories } from '../../market/category.js'
import { isDay, sum } from '../../market/values.js'
import { messageOf } from '../../runtime/text.js'
import { archivedTable, type Day, dayEnd, type DayRange, dayStart, isInRange } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'

const time = z.string().regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$/)
const range = z.tuple([time, time])
const decimal = z.string().regex(/^-?\d+(\.\d+)?$/)
const count = z.int().min(0)
const digest = z.string().regex(/^[0-9a-f]{64}$/)
const name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)

/** Proof for one series on one day. Ranges are half-open. All but gaps are cut at the ends of the day. */
const seriesProof = z.strictObject({
  stream: z.string(),
  category: z.enum(categories),
  symbol: z.string(),
  /** Candle type. Type and interval are empty for other streams. */
  type: z.string(),
  interval: z.string(),
  /** Ranges in which every row is stored. */
  coverage: z.array(range),
  /** Ranges in which the service has nothing. */
  empty: z.array(range),
  /** Ranges of candles that the service left out because nothing was traded. */
  noTrade: z.array(range),
  /** The part of `noTrade` that a second look confirmed. */
  noTradeConfirmed: z.array(range),
  gaps: z.array(
    z.strictObject({
      from: time,
      to: time,
      reason: z.string(),
      state: z.enum(['open', 'repaired', 'lost']),
      detectedAt: time,
      repairedAt: time.nullable(),
      lostAt: time.nullable(),
    }),
  ),
  /** Closed candles that the service changed later, with old and new values. */
  revisions: z.array(
    z.strictObject({
      openTime: time,
      revisedAt: time,
      /** Open, high, low, close, base volume, quote turnover. Either of the last two may be unknown. */
      old: z.array(decimal.nullable()).length(6),
      new: z.array(decimal.nullable()).length(6),
    }),
  ),
  /** Restatements of a series by the service that reach into the day. */
  restatements: z.array(
    z.strictObject({
      from: time,
      to: time,
      numerator: decimal,
      denominator: decimal,
      candles: count,
      detectedAt: time,
    }),
  ),
})
export type SeriesProof = z.infer<typeof seriesProof>

/** Names a series. Type and interval are empty if a stream has none, and `*` stands for all symbols. */
export type SeriesName = Pick<SeriesProof, 'symbol' | 'type' | 'interval'> & { readonly category: string }

const columnSchema = z.strictObject({
  name,
  /** Type in the database: text, numeric, _numeric, timestamptz, … */
  type: name,
  /**
   * Decimal columns only: largest number of digits before the point. With `scale`, it determines the type in the files.
   */
  digits: count.max(1_000_000).optional(),
  scale: count.max(1_000_000).optional(),
})
export type ManifestColumn = z.infer<typeof columnSchema>

const place = z.strictObject({ symbol: z.string(), time: time.nullable() })
const fileSchema = z.strictObject({
  /** Path of the file from the root of the archive. */
  path: z.string(),
  category: z.enum(categories),
  bytes: count,
  rows: count,
  sha256: digest,
  first: place,
  last: place,
})
export type ManifestFile = z.infer<typeof fileSchema>

const bodySchema = z.strictObject({
  format: z.literal(1),
  table: z.enum(marketTables),
  day: z.iso.date(),
  /** Number of the version, from 1. The highest number counts, and a manifest never changes. */
  version: z.int().min(1),
  recorder: z.string(),
  /** The newest migration of the database. */
  schema: z.string(),
  writtenAt: z.string(),
  columns: z.array(columnSchema),
  rows: count,
  /** SHA-256 of the rows, by category. */
  digests: z.partialRecord(z.enum(categories), z.strictObject({ rows: count, sha256: digest })),
  files: z.array(fileSchema),
  proofSha256: digest,
  proof: z.array(seriesProof),
})
type ManifestBody = z.infer<typeof bodySchema>

/** A manifest with the SHA-256 of all its other fields. The database keeps this hash too. */
export type Manifest = ManifestBody & { readonly sha256: string }
const manifestSchema = bodySchema.extend({ sha256: digest })

export type Digests = ManifestBody['digests']

/** Place of a manifest, which determines its table, day and version. */
export interface ManifestPlace {
  readonly table: string
  readonly day: Day
  readonly version: number
}

export function sha256(bytes: string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Names the series of a proof within its table. */
export function seriesKey({ category, symbol, type, interval }: SeriesName): string {
  return [category, symbol, type, interval].join('\t')
}

export function proofDigest(proof: readonly SeriesProof[]): string {
  return sha256(JSON.stringify(proof))
}

export function sealManifest(body: ManifestBody): Manifest {
  const ordered = bodySchema.parse(body)
  return { ...ordered, sha256: sha256(JSON.stringify(ordered)) }
}

function whyUnreadable(error: unknown): string {
  if (error instanceof SyntaxError) return 'it is no JSON'
  if (!(error instanceof z.ZodError)) return messageOf(error)
  const fields = [...new Set(error.issues.map(({ path }) => path.join('.') || 'the whole'))]
  return `it is no manifest that this version knows (${fields.slice(0, 3).join(', ')})`
}

/** Returns why a manifest contradicts its place or itself; null if nothing does. */
function contradiction({ sha256: seal, ...body }: Manifest, at: ManifestPlace): string | null {
  const { table, day, version, files, digests, proof } = body
  if (table !== at.table || day !== at.day || version !== at.version) {
    return `it is of ${table} of ${day}, version ${version}`
  }
  if (sha256(JSON.stringify(body)) !== seal) return 'it has another digest'
  if (proofDigest(proof) !== body.proofSha256) return 'its proof has another digest'
  if (new Set(body.columns.map((column) => column.name)).size < body.columns.length) return 'it names a column twice'
  const rows = new Map<string, number>()
  const numbers = new Map<string, number>()
  for (const file of files) {
    const number = numbers.get(file.category) ?? 0
    numbers.set(file.category, number + 1)
    rows.set(file.category, (rows.get(file.category) ?? 0) + file.rows)
    if (file.path !== filePath({ table, day, version }, file.category, number)) return `it names ${file.path}`
  }
  const named = new Set([...rows.keys(), ...Object.keys(digests)])
  for (const category of named) {
    const listed = digests[category as keyof Digests]?.rows ?? 0
    if (listed !== (rows.get(category) ?? 0)) return `its files do not have the ${listed} rows of ${category}`
  }
  if (body.rows !== sum([...rows.values()])) return 'its rows do not add up'
  return proof.map((one) => beyondDay(one, table, day)).find((problem) => problem !== null) ?? null
}

/** Returns why a proof is not limited to its day; null if it is. A forged proof could otherwise claim years. */
function beyondDay(proof: SeriesProof, table: MarketTable, day: Day): string | null {
  if (proof.stream !== archivedTable(table).stream) return `its proof is of ${proof.stream}`
  const [start, end] = [dayStart(day), dayEnd(day)]
  const within = [...proof.coverage, ...proof.empty, ...proof.noTrade, ...proof.noTradeConfirmed]
  const isBeyond = within.some(([from, to]) => {
    const [first, last] = [Date.parse(from), Date.parse(to)]
    return !(first >= start && first < last && last <= end)
  })
  const touches = ({ from, to }: { readonly from: string; readonly to: string }) =>
    Date.parse(from) < end && Date.parse(to) > start
  const isElsewhere =
    !proof.gaps.every(touches) ||
    !proof.restatements.every(touches) ||
    !proof.revisions.every(({ openTime }) => Date.parse(openTime) >= start && Date.parse(openTime) < end)
  return isBeyond || isElsewhere ? `its proof of ${proof.symbol} reaches beyond the day` : null
}

const manifestsRoot = 'manifests/'

export function manifestPath({ table, day, version }: ManifestPlace): string {
  return `${manifestsRoot}table=${table}/day=${day}/v${String(version).padStart(4, '0')}.json`
}

/** Returns the folder for the files of a day. */
export function dayFolder(table: string, day: Day): string {
  return `table=${table}/day=${day}/`
}

/** @param number number of the file within its category, from 0 */
export function filePath({ table, day, version }: ManifestPlace, category: string, number: number): string {
  return `${dayFolder(table, day)}category=${category}/${table}-v${version}-${number}.parquet`
}

function parseManifestPath(path: string): ManifestPlace | null {
  const match = /^manifests\/table=([a-z_]+)\/day=(\d{4}-\d{2}-\d{2})\/v(\d{4,9})\.json$/.exec(path)
  if (match === null) return null
  const [, table = '', day = '', version = ''] = match
  // Each place has only one valid spelling, so that no version exists twice.
  const place = { table, day, version: Number(version) }
  return isDay(day) && manifestPath(place) === path ? place : null
}

/** Lists the archived days of a table with their versions, both ascending. Only manifests count as versions. */
export async function listDays(target: ArchiveTarget, table: string): Promise<ReadonlyMap<Day, readonly number[]>> {
  const found = new Map<Day, number[]>()
  for (const { path } of await target.list(`${manifestsRoot}table=${table}/`)) {
    const place = parseManifestPath(path)
    if (place === null) continue
    const versions = [...(found.get(place.day) ?? []), place.version]
    found.set(
      place.day,
      versions.toSorted((a, b) => a - b),
    )
  }
  return found
}

interface Listing extends DayRange {
  /** True if each day has the whole table. Only the newest day before `to` then counts. Default false. */
  readonly isWhole?: boolean
}

/** Lists the newest versions of days, ascending. */
export async function listNewest(
  target: ArchiveTarget,
  table: string,
  { from, to, isWhole = false }: Listing = {},
): Promise<ManifestPlace[]> {
  const days = [...(await listDays(target, table))].filter(([day]) => isInRange(day, { to }))
  const wanted = isWhole ? days.slice(-1) : days.filter(([day]) => isInRange(day, { from }))
  return wanted.map(([day, versions]) => ({ table, day, version: versions.at(-1) ?? 0 }))
}

/** Reads a manifest. Throws a `DamagedArchive` if it is missing or damaged. */
export async function readManifest(target: ArchiveTarget, place: ManifestPlace): Promise<Manifest> {
  const path = manifestPath(place)
  const bytes = await target.read(path)
  if (bytes === null) throw new DamagedArchive(`${path} is missing`)
  try {
    const manifest = manifestSchema.parse(JSON.parse(bytes.toString('utf8')))
    const problem = contradiction(manifest, place)
    if (problem !== null) throw new Error(problem)
    return manifest
  } catch (error) {
    throw new DamagedArchive(`${path} is damaged: ${whyUnreadable(error)}`, { cause: error })
  }
}

/** Writes a manifest, which makes its day visible. Resolves to false if another one has its place. */
export function createManifest(target: ArchiveTarget, manifest: Manifest): Promise<boolean> {
  return target.create(manifestPath(manifest), `${JSON.stringify(manifest, null, 1)}\n`)
}
