import { join, resolve } from 'node:path'
import { Option } from 'commander'
import { ConfigError } from '../config/configError.js'
import type { RecorderDatabase } from '../db/database.js'
import type { ArchiveRunFiles } from '../files/archive/run.js'
import type { NotedDay } from '../files/archive/state.js'
import type { Config } from '../config/resolve.js'
import { systemClock } from '../runtime/clock.js'
import { type ArchiveTarget, folderTarget } from '../files/archive/target.js'
import { marketTables } from '../market/stream.js'

/**
 * Opens the archive that the configuration names. What it takes to speak with a bucket is loaded only then.
 *
 * @param signal ends what is under way
 */
export async function openArchive({ archive, database }: Config, signal?: AbortSignal): Promise<ArchiveTarget> {
  const { folder, bucket, prefix = '', endpoint, region, forcePathStyle } = archive
  if (folder !== undefined) return folderTarget(resolve(folder))
  if (bucket === undefined) {
    throw new ConfigError([
      'there is no archive: set archive.folder or archive.bucket in the configuration, and give that with --config',
    ])
  }
  const { bucketTarget } = await import('../files/archive/bucket.js')
  const place = {
    bucket,
    prefix: prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`,
    forcePathStyle,
    ...(endpoint !== undefined && { endpoint }),
    ...(region !== undefined && { region }),
  }
  return bucketTarget(place, {
    clock: systemClock,
    folder: join(resolve(database.dataDir), 'archive'),
    ...(signal !== undefined && { signal }),
  })
}

/** Publishes an archive as tables. What it takes to write them is loaded only then. */
export async function openPublisher(
  { archive }: Config,
  { db }: RecorderDatabase,
  target: ArchiveTarget,
  options: { readonly isAnew?: boolean } = {},
) {
  const { publishTables } = await import('../files/iceberg/publish.js')
  const place = { db, target, snapshotDays: archive.snapshotDays, now: Date.now }
  return (files: ArchiveRunFiles, noted: readonly NotedDay[]) => publishTables({ ...place, ...files }, noted, options)
}

export function tableOption(what: string): Option {
  return new Option('--table <table...>', what).choices(marketTables)
}
