import { listDays, manifestPath, readManifest } from './manifest.js'
import { marketTables } from '../../market/stream.js'
import type { ArchiveTarget } from './target.js'

interface Pruned {
  /** Former versions of days. */
  readonly versions: number
  readonly files: number
  readonly bytes: number
}

interface PruneOptions {
  readonly isDryRun?: boolean
  /** Files that published tables need; null when there are no tables. */
  readonly needed?: ReadonlySet<string> | null
}

/**
 * Removes all but the newest version of each day, and files that neither a manifest nor a table needs. To be called by one process
 * at a time. A manifest goes before its files, so that none is ever without them. Throws on a newest version that is damaged, and
 * removes nothing.
 */
export async function pruneArchive(
  target: ArchiveTarget,
  { isDryRun = false, needed = null }: PruneOptions = {},
): Promise<Pruned> {
  const named = new Set<string>(needed)
  const former: string[] = []
  for (const [table, days] of await listDays(target)) {
    for (const [day, versions] of days) {
      for (const version of versions.slice(0, -1)) former.push(manifestPath(table, day, version))
      const { files } = await readManifest(target, table, day, versions.at(-1) ?? 0)
      for (const { path } of files) named.add(path)
    }
  }
  if (!isDryRun) for (const path of former) await target.remove(path)
  let files = 0
  let bytes = 0
  const folders = marketTables.map((table) => `table=${table}/`)
  for (const folder of needed === null ? folders : [...folders, 'iceberg/']) {
    for (const file of await target.list(folder)) {
      if (named.has(file.path)) continue
      files++
      bytes += file.bytes
      if (!isDryRun) await target.remove(file.path)
    }
  }
  return { versions: former.length, files, bytes }
}
