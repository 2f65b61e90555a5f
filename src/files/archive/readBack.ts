import { openParquet } from '../parquet/read.js'
import type { Compression } from '../parquet/zstd.js'
import { RowDigest } from './rowDigest.js'
import type { Manifest } from './manifest.js'
import { fileDigest } from './stageDay.js'
import type { ArchiveTarget } from './target.js'

export interface ReadBackOptions {
  readonly compression: Compression
  /** Told now and then; may throw to end it. */
  readonly onRows?: (rows: number) => void
  /** Whether the rows are decoded, or only the files compared. Default true. */
  readonly withRows?: boolean
}

/** Reads a day as the archive has it and compares it with its manifest. Resolves to what is wrong, one line each. */
export async function readBack(
  target: ArchiveTarget,
  manifest: Pick<Manifest, 'files' | 'digests' | 'columns'>,
  { compression, onRows, withRows = true }: ReadBackOptions,
): Promise<string[]> {
  const problems: string[] = []
  const digests = new Map<string, RowDigest>()
  let rows = 0
  for (const file of manifest.files) {
    const digest = digests.get(file.category) ?? new RowDigest(manifest.columns)
    digests.set(file.category, digest)
    let fetched: Awaited<ReturnType<ArchiveTarget['fetch']>> | undefined
    try {
      fetched = await target.fetch(file.path)
      const { bytes, sha256 } = await fileDigest(fetched.localPath)
      if (bytes !== file.bytes || sha256 !== file.sha256) {
        problems.push(`${file.path} is not what was written: ${bytes} of ${file.bytes} bytes, another digest`)
        continue
      }
      if (!withRows) continue
      for await (const batch of (await openParquet(fetched.localPath, compression)).batches()) {
        digest.addFileRows(batch)
        rows += batch.length
        onRows?.(rows)
      }
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ENOENT') problems.push(`${file.path} is missing`)
      else throw error
    } finally {
      await fetched?.release()
    }
  }
  if (problems.length > 0 || !withRows) return problems
  for (const [category, expected] of Object.entries(manifest.digests)) {
    const digest = digests.get(category) ?? new RowDigest(manifest.columns)
    if (digest.rows !== expected.rows || digest.hex() !== expected.sha256) {
      problems.push(`the rows of ${category} read back differ from those that were written`)
    }
  }
  return problems
}
