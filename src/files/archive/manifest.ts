import { z } from 'zod'
import { sha256 } from './digest.js'
import { archivedTableNames } from '../../market/archivedTable.js'
import { type Day } from './tables.js'

const range = z.tuple([z.string(), z.string()])

/** What is proven of a series in a day. Times in ISO 8601, UTC; ranges half-open; all of it cut at the ends of the day but gaps. */
const seriesProof = z.strictObject({
  stream: z.string(),
  category: z.string(),
  symbol: z.string(),
  /** Of candles; empty otherwise, as is `interval`. */
  type: z.string(),
  interval: z.string(),
  /** Proven to be known in full. */
  coverage: z.array(range),
  /** Proven to be empty on the side of the service. */
  empty: z.array(range),
  /** Candles that the service left out because nothing was traded. */
  noTrade: z.array(range),
  /** Of these, what was looked at once more. */
  noTradeConfirmed: z.array(range),
  gaps: z.array(
    z.strictObject({
      from: z.string(),
      to: z.string(),
      reason: z.string(),
      state: z.enum(['open', 'repaired', 'lost']),
      detectedAt: z.string(),
      repairedAt: z.string().nullable(),
      lostAt: z.string().nullable(),
    }),
  ),
  /** Closed candles that the service changed later, with the values before and after. */
  revisions: z.array(
    z.strictObject({
      openTime: z.string(),
      revisedAt: z.string(),
      /** open, high, low, close, base volume, quote turnover */
      old: z.array(z.string()).length(6),
      new: z.array(z.string()).length(6),
    }),
  ),
  /** History that the service rewrote as a whole, and that reaches into the day. */
  restatements: z.array(
    z.strictObject({
      from: z.string(),
      to: z.string(),
      numerator: z.string(),
      denominator: z.string(),
      candles: z.int(),
      detectedAt: z.string(),
    }),
  ),
})
export type SeriesProof = z.infer<typeof seriesProof>

const columnSchema = z.strictObject({
  name: z.string(),
  /** Of the database: text, numeric, _numeric, timestamptz, … */
  type: z.string(),
  /** Of decimals: most digits before and after the point, from which the type in the files follows. */
  digits: z.int().optional(),
  scale: z.int().optional(),
})
export type ManifestColumn = z.infer<typeof columnSchema>

const fileSchema = z.strictObject({
  /** From the root of the archive. */
  path: z.string(),
  category: z.string(),
  bytes: z.int(),
  rows: z.int(),
  sha256: z.string(),
  first: z.strictObject({ symbol: z.string(), time: z.string().nullable() }),
  last: z.strictObject({ symbol: z.string(), time: z.string().nullable() }),
})
export type ManifestFile = z.infer<typeof fileSchema>

const manifestSchema = z.strictObject({
  format: z.literal(1),
  table: z.enum(archivedTableNames),
  day: z.iso.date(),
  /** From 1. The highest one counts; a manifest is written once and never changed. */
  version: z.int().min(1),
  recorder: z.string(),
  /** The newest migration of the database. */
  schema: z.string(),
  writtenAt: z.string(),
  columns: z.array(columnSchema),
  rows: z.int(),
  /** SHA-256 of the rows, by category. */
  digests: z.record(z.string(), z.strictObject({ rows: z.int(), sha256: z.string() })),
  files: z.array(fileSchema),
  proofSha256: z.string(),
  proof: z.array(seriesProof),
})
export type Manifest = z.infer<typeof manifestSchema>

/** Throws one line on a text that is none. */
export function parseManifest(path: string, text: string): Manifest {
  try {
    const manifest = manifestSchema.parse(JSON.parse(text))
    if (proofDigest(manifest.proof) !== manifest.proofSha256) throw new Error('its proof has another digest')
    return manifest
  } catch (error) {
    throw new Error(`${path} is damaged: bring it back from a copy of the archive`, { cause: error })
  }
}

export function manifestText(manifest: Manifest): string {
  return `${JSON.stringify(manifest, null, 1)}\n`
}

export function proofDigest(proof: readonly SeriesProof[]): string {
  return sha256(JSON.stringify(proof))
}

export const manifestsRoot = 'manifests/'

export function manifestsOf(table: string): string {
  return `${manifestsRoot}table=${table}/`
}

export function manifestPath(table: string, day: Day, version: number): string {
  return `${manifestsOf(table)}day=${day}/v${String(version).padStart(4, '0')}.json`
}

/** What the path of a manifest says; null for anything else. */
export function parseManifestPath(path: string): { table: string; day: Day; version: number } | null {
  const match = /^manifests\/table=([a-z_]+)\/day=(\d{4}-\d{2}-\d{2})\/v(\d{4,})\.json$/.exec(path)
  if (match === null) return null
  const [, table = '', day = '', version = ''] = match
  return { table, day, version: Number(version) }
}

/** Where the files of a day lie. */
export function dayFolder(table: string, day: Day): string {
  return `table=${table}/day=${day}/`
}
