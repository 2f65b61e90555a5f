import {
  type Manifest,
  manifestPath,
  manifestsOf,
  manifestsRoot,
  parseManifest,
  parseManifestPath,
} from './manifest.js'
import type { ArchiveTarget } from './target.js'
import type { Day } from './tables.js'

/** The versions that an archive has of each day of each table, ascending: what its manifests say, which alone decide. */
export type ArchivedDays = ReadonlyMap<string, ReadonlyMap<Day, readonly number[]>>

/** @param table by default all of them */
export async function listDays(target: ArchiveTarget, table?: string): Promise<ArchivedDays> {
  const found = new Map<string, Map<Day, number[]>>()
  for (const { path } of await target.list(table === undefined ? manifestsRoot : manifestsOf(table))) {
    const parsed = parseManifestPath(path)
    if (parsed === null) continue
    const days = found.get(parsed.table) ?? new Map<Day, number[]>()
    found.set(parsed.table, days)
    days.set(
      parsed.day,
      [...(days.get(parsed.day) ?? []), parsed.version].toSorted((a, b) => a - b),
    )
  }
  return found
}

/** Throws when it is not there, or damaged. */
export async function readManifest(target: ArchiveTarget, table: string, day: Day, version: number): Promise<Manifest> {
  const path = manifestPath(table, day, version)
  const bytes = await target.read(path)
  if (bytes === null) throw new Error(`${path} is not in ${target.name}`)
  return parseManifest(path, bytes.toString('utf8'))
}
