import { type Pointers, readHints, versionOf } from '../iceberg/catalog.js'
import { publishedTables } from '../iceberg/tables.js'
import type { ArchiveTarget } from '../layout/target.js'

/**
 * Throws if the archive has snapshots that this database does not know. The database was brought back from a dump then,
 * or the archive is that of another one. Nobody but a person knows which of both is right.
 */
export async function requireOwnArchive(target: ArchiveTarget, pointers: Pointers): Promise<void> {
  for (const [name, hint] of await readHints(target, publishedTables)) {
    if (versionOf(hint) <= versionOf(pointers.get(name) ?? '')) continue
    throw new Error(
      `the archive in ${target.name} knows more than this database: archive adopt makes final what the archive has; or name another place for the archive of this database`,
    )
  }
}
