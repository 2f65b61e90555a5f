import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { DatabasePool } from '../../db/pool.js'
import { readInBatches } from '../../db/readOnlyQuery.js'
import type { TimeMs } from '../../market/values.js'
import type { UnfitDecimal } from '../parquet/decimals.js'
import { exportFormats } from './files.js'
import { type ExportRequest, partsOf, selectedRows, selectionOf } from './request.js'

/** Contents of an export folder. The same command reads the manifest to continue an export that was stopped. */
const manifestSchema = z.strictObject({
  what: z.string(),
  format: z.enum(exportFormats),
  categories: z.array(z.string()).nullable(),
  symbols: z.array(z.string()).nullable(),
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })),
  /**
   * Largest number of digits before and after the point, by decimal column. These numbers determine the column types.
   */
  decimals: z.record(z.string(), z.strictObject({ digits: z.int(), scale: z.int() })),
  /** Columns whose decimals are written as text. */
  asText: z.array(z.string()),
  /** Finished parts by day; the key is `all` when rows are not split into days. */
  parts: z.record(
    z.string(),
    z.strictObject({
      from: z.string(),
      to: z.string(),
      rows: z.int(),
      files: z.int(),
      writtenAt: z.string(),
      /** True for a part written before a column got a wider type. The part stays until it is written again. */
      isOutdated: z.literal(true).optional(),
    }),
  ),
})
export type Manifest = z.infer<typeof manifestSchema>

const fileName = 'export.json'

/** Returns null if the folder has no manifest. Throws if the manifest is damaged. */
export async function readManifest(folder: string): Promise<Manifest | null> {
  const path = join(folder, fileName)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  try {
    return manifestSchema.parse(JSON.parse(text))
  } catch (error) {
    throw new Error(`${path} is damaged: export into another folder, or with --overwrite`, { cause: error })
  }
}

/** Replaces the manifest in one step, so that the file is never incomplete. */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const path = join(folder, fileName)
  await writeFile(`${path}.new`, `${JSON.stringify(manifest, null, 2)}\n`)
  await rename(`${path}.new`, path)
}

/** Returns a manifest in which every day with files is marked to be written again. */
export function withOutdatedDays(manifest: Manifest): Manifest {
  const parts = Object.entries(manifest.parts).map(([name, part]): [string, typeof part] => [
    name,
    part.files === 0 ? part : { ...part, isOutdated: true },
  ])
  return { ...manifest, parts: Object.fromEntries(parts) }
}

/** Throws if this request cannot restore a whole day that must be written again. The files then stay as they are. */
export async function requireReplaceable(
  database: DatabasePool,
  request: ExportRequest,
  manifest: Manifest,
  now: TimeMs,
  cause?: UnfitDecimal,
): Promise<void> {
  const { source, folder } = request
  // An export without days is always written again as a whole.
  if (source.timeColumn === undefined) return
  const because = cause === undefined ? '' : `${cause.message}: `
  const why = `${because}all days in ${folder} have to be written again, with a wider type`
  const parts = new Map(partsOf(request, now).map((part) => [part.name, part]))
  const outdated = Object.entries(manifest.parts).filter(([, { isOutdated }]) => isOutdated)
  for (const [name, { from, to }] of outdated) {
    const part = parts.get(name)
    if (part !== undefined && part.from <= Date.parse(from) && part.to >= Date.parse(to)) continue
    throw new Error(`${why}, and not all of ${name} is asked for: ${giveWhole(manifest)}`, { cause })
  }
  for (const [name, { from, to, rows }] of outdated) {
    const { sql, parameters } = selectedRows(
      source,
      selectionOf(request, { from: Date.parse(from), to: Date.parse(to) }),
    )
    const options = { batchRows: 1, parameters }
    const found = await readInBatches(database, `select count(*) from ${sql}`, options, async (_, batches) => {
      for await (const [row] of batches) return Number(row?.[0])
      return 0
    })
    if (found < rows) throw new Error(`${why}, and ${fewerRows(name, found, rows)}`, { cause })
  }
}

function giveWhole({ parts }: Manifest): string {
  const times = Object.values(parts)
  const [first = ''] = times.map(({ from }) => from).toSorted()
  const last =
    times
      .map(({ to }) => to)
      .toSorted()
      .at(-1) ?? ''
  return `export into another folder, or all of it, --from ${first} --to ${last} or more`
}

export function fewerRows(name: string, found: number, rows: number): string {
  return `of ${rows} rows of ${name} the database has only ${found} now: export into another folder`
}
