import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { exportFormats } from './files.js'

/** What a folder holds, in its own words, so that the same command can go on where it was stopped. */
const manifestSchema = z.strictObject({
  what: z.string(),
  format: z.enum(exportFormats),
  categories: z.array(z.string()).nullable(),
  symbols: z.array(z.string()).nullable(),
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })),
  /** Most digits before and after the point of what the columns of decimals hold, from which their types follow. */
  decimals: z.record(z.string(), z.strictObject({ digits: z.int(), scale: z.int() })),
  /** Columns whose decimals are written as text. */
  asText: z.array(z.string()),
  /** What is finished, by day, or `all` where there are no days. */
  parts: z.record(
    z.string(),
    z.strictObject({
      from: z.string(),
      to: z.string(),
      rows: z.int(),
      files: z.int(),
      writtenAt: z.string(),
      /** Written before a column got a wider type: it stays until it is written again. */
      isOutdated: z.literal(true).optional(),
    }),
  ),
})
export type Manifest = z.infer<typeof manifestSchema>

const fileName = 'export.json'

/** Null when the folder has none. Throws on one that is damaged. */
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

/** Replaces it at once, so that it is never half a file. */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const path = join(folder, fileName)
  await writeFile(`${path}.new`, `${JSON.stringify(manifest, null, 2)}\n`)
  await rename(`${path}.new`, path)
}
