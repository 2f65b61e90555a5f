import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { hasHypertables } from '../../server/timescale/server.js'
import { compareWithDatabase } from './compare.js'
import { listDays, readManifest } from './manifests.js'
import { readBack } from './readBack.js'
import { withSnapshot } from './snapshot.js'
import { forgetArchivedDay } from './state.js'
import { archivedTableNames } from '../../market/archivedTable.js'
import { archivedTable, type Day } from './tables.js'
import type { ArchiveTarget } from './target.js'

export interface VerifiedDay {
  readonly table: string
  readonly day: Day
  readonly version: number
  readonly rows: number
  /** Against the database: null when there is none to compare with, or it has no rows of that day. */
  readonly isEqual: boolean | null
  readonly problems: readonly string[]
}

export interface VerifyOptions {
  readonly tables?: readonly string[] | undefined
  /** Half-open, by day. */
  readonly from?: Day | undefined
  readonly to?: Day | undefined
  /** Without it the archive is verified by itself. */
  readonly database?: RecorderDatabase | undefined
  readonly signal?: AbortSignal
}

/**
 * Reads every file of every version that the archive has and compares it with its manifest, row by row, and the newest version
 * with the database where that has the day as well; where they differ the day is due again. Gives one result for each day; ends with
 * what belongs to no day.
 */
export async function* verifyArchive(target: ArchiveTarget, options: VerifyOptions = {}): AsyncIterable<VerifiedDay> {
  const { database, signal, tables = archivedTableNames } = options
  const compression = await loadZstd()
  const isHypertable = database !== undefined && (await hasHypertables(database.db))
  const onRows = () => signal?.throwIfAborted()
  const days = await listDays(target)
  for (const table of tables) {
    const named = new Set<string>()
    for (const [day, versions] of [...(days.get(table) ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (!isInside(day, options)) continue
      for (const version of versions) {
        const isNewest = version === versions.at(-1)
        let manifest
        try {
          manifest = await readManifest(target, table, day, version)
        } catch (error) {
          yield { table, day, version, rows: 0, isEqual: null, problems: [(error as Error).message] }
          continue
        }
        for (const { path } of manifest.files) named.add(path)
        const problems = await readBack(target, manifest, { compression, onRows })
        let isEqual: boolean | null = null
        if (isNewest && database !== undefined && archivedTable(table).timeColumn !== undefined) {
          const read = manifest
          const compared = await withSnapshot(database, (snapshot) =>
            compareWithDatabase(snapshot, read, isHypertable, onRows),
          )
          if (compared !== 'absent') isEqual = compared === 'equal'
          if (typeof compared === 'object') {
            // Nothing else would: rows may come to a day, from a spool, without a change of what is proven of it.
            await forgetArchivedDay(database.db, table, day)
            problems.push(`not as in the database: ${compared.difference}; the next archive writes it anew`)
          }
        }
        yield { table, day, version, rows: manifest.rows, isEqual, problems }
      }
    }
    // Of a part of the days it cannot be told what the others have.
    if (options.from !== undefined || options.to !== undefined) continue
    for (const { path } of await target.list(`table=${table}/`)) {
      const day = /\/day=([\d-]+)\//.exec(path)?.[1]
      if (named.has(path)) continue
      const problems = [`${path} belongs to no manifest: readers of manifests do not see it; archive prune removes it`]
      yield { table, day: day ?? '', version: 0, rows: 0, isEqual: null, problems }
    }
  }
}

function isInside(day: Day, { from, to }: VerifyOptions): boolean {
  return (from === undefined || day >= from) && (to === undefined || day < to)
}
