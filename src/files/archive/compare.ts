import { parquetColumns } from './columns.js'
import { RowDigest } from './rowDigest.js'
import type { Manifest } from './manifest.js'
import { rowsOf, symbolsOfDay } from './rows.js'
import type { Snapshot } from './snapshot.js'
import { archivedTable } from './tables.js'

export type Comparison = 'equal' | 'absent' | { readonly difference: string }

/**
 * Compares the rows of a day in the database with those in the archive, all of them. `absent` when the database has none of a day
 * that the archive has.
 *
 * @param onRows may throw to end it
 */
export async function compareWithDatabase(
  snapshot: Snapshot,
  manifest: Manifest,
  isHypertable: boolean,
  onRows?: (rows: number) => void,
): Promise<Comparison> {
  const { table: name, day, digests } = manifest
  const table = archivedTable(name)
  const columns = parquetColumns(manifest.columns)
  const symbols = await symbolsOfDay(snapshot, table, day, isHypertable)
  if (symbols.size === 0 && manifest.rows > 0) return 'absent'
  let rows = 0
  for (const category of new Set([...symbols.keys(), ...Object.keys(digests)])) {
    const digest = new RowDigest(manifest.columns)
    const selection = { day, category, symbols: symbols.get(category) ?? [] }
    for await (const batch of rowsOf(snapshot, table, columns, selection)) {
      digest.addServerRows(batch)
      rows += batch.length
      onRows?.(rows)
    }
    const archived = digests[category]
    if (digest.rows !== (archived?.rows ?? 0)) {
      return { difference: `${category}: ${digest.rows} rows in the database, ${archived?.rows ?? 0} in the archive` }
    }
    if (archived !== undefined && digest.hex() !== archived.sha256) {
      return { difference: `${category}: as many rows, but not the same` }
    }
  }
  return 'equal'
}
