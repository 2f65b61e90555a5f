import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { exportFormats } from './files.js'

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
