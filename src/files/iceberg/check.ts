import type { Kysely } from 'kysely'
import type { Database } from '../../db/schema.js'
import { readManifest } from '../archive/manifest.js'
import { type ArchiveTarget, DamagedArchive } from '../archive/target.js'
import { hashOf, metadataFolder, partsOf, pathOf, readBase, readEntries, readList, readPointers } from './current.js'
import { currentSnapshot } from './metadata.js'
import { publishedTables } from './tables.js'

/**
 * Lists the paths of all files that the tables need, for every snapshot that readers may still hold. Resolves to null
 * if nothing was ever published. Throws a `DamagedArchive` if a table cannot be read, because it may need any file.
 */
export async function neededFiles(db: Kysely<Database>, target: ArchiveTarget): Promise<Set<string> | null> {
  const pointers = await readPointers(db)
  const urls = new Set<string>()
  const paths = new Set<string>()
  for (const [name, pointer] of pointers) {
    const { metadata } = await readBase(target, pointer)
    urls.add(pointer)
    for (const { 'metadata-file': url } of metadata['metadata-log']) urls.add(url)
    for (const { 'manifest-list': list } of metadata.snapshots) {
      urls.add(list)
      for (const { manifest_path: manifest } of await readList(target, list)) {
        if (urls.has(manifest)) continue
        urls.add(manifest)
        for (const { data_file: file } of await readEntries(target, manifest)) urls.add(file.file_path)
      }
    }
    paths.add(`${metadataFolder(name)}version-hint.text`)
  }
  for (const url of urls) paths.add(pathOf(target, url))
  return pointers.size === 0 ? null : paths
}

/** Compares each table with the manifests of the archive. Yields one line per difference. */
export async function* verifyTables(
  db: Kysely<Database>,
  target: ArchiveTarget,
): AsyncIterable<{ readonly table: string; readonly problem: string }> {
  const pointers = await readPointers(db)
  for (const table of publishedTables) {
    const pointer = pointers.get(table.name)
    if (pointer === undefined) continue
    try {
      const snapshot = currentSnapshot((await readBase(target, pointer)).metadata)
      const parts = await partsOf({ db: null, target }, table)
      const shown = new Set<string>()
      for (const { manifest_path: manifest } of await readList(target, snapshot['manifest-list'])) {
        for (const { data_file: file } of await readEntries(target, manifest)) {
          shown.add(fileKey(pathOf(target, file.file_path), file.record_count, file.file_size_in_bytes))
        }
      }
      const files = new Set<string>()
      for (const part of table.proof === undefined ? parts : []) {
        const manifest = await readManifest(target, part)
        for (const { path, rows, bytes } of manifest.files) files.add(fileKey(path, rows, bytes))
      }
      const isSame =
        table.proof !== undefined || (files.size === shown.size && [...files].every((key) => shown.has(key)))
      if (isSame && snapshot.summary['manifests-sha256'] === hashOf(parts)) continue
      yield {
        table: table.name,
        problem: `the table shows something else than ${pointer} was made of: run market-recorder archive`,
      }
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      yield { table: table.name, problem: error.message }
    }
  }
}

function fileKey(path: string, rows: number, bytes: number): string {
  return `${path} ${rows} ${bytes}`
}
