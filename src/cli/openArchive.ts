import type { Option } from 'commander'
import { join, resolve } from 'node:path'
import { ConfigError } from '../config/configError.js'
import type { Config } from '../config/resolve.js'
import { type ArchiveTarget, folderTarget } from '../files/layout/target.js'
import { marketTables } from '../market/stream.js'
import { type OpenStore, openStore } from '../openStore.js'
import { prepareBeside } from '../prepareStore.js'
import { systemClock } from '../runtime/clock.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/process.js'
import { failedOrStopped } from './end.js'
import { type CommonOptions, namesOption, readConfig } from './options.js'

export function tableOption(what: string): Option {
  return namesOption('--table <table...>', what, marketTables)
}

/**
 * Opens the configured archive. The client for buckets is only loaded for a bucket.
 *
 * @param signal aborts requests in progress
 */
export async function openArchive({ archive, database }: Config, signal?: AbortSignal): Promise<ArchiveTarget> {
  const { folder, bucket, prefix = '', endpoint, region, forcePathStyle } = archive
  if (folder !== undefined) return folderTarget(resolve(folder))
  if (bucket === undefined) {
    throw new ConfigError([
      'there is no archive: set archive.folder or archive.bucket in the configuration, and give that with --config',
    ])
  }
  const { bucketTarget } = await import('../files/bucket/target.js')
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

interface TargetParts {
  readonly config: Config
  readonly target: ArchiveTarget
  /** Aborts when the user stops the command. */
  readonly signal: AbortSignal
}

/** Runs a command with the archive open, and closes it. */
export async function withTarget(options: CommonOptions, work: (parts: TargetParts) => Promise<void>): Promise<void> {
  const config = await readConfig(options)
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  try {
    await work({ config, target, signal: stop.signal })
  } finally {
    stop.release()
    await target.close()
  }
}

export interface OpenParts extends TargetParts {
  readonly store: OpenStore
}

interface OpenOptions {
  /** True to bring the database to the newest schema first. Default false. */
  readonly isPreparing?: boolean
  /** Database to open in place of the configured one. */
  readonly url?: string
}

/** Runs a resumable command with the archive and the database open, and closes both. */
export async function withArchive(
  options: CommonOptions,
  work: (parts: OpenParts) => Promise<void>,
  { isPreparing = false, url }: OpenOptions = {},
): Promise<void> {
  await withTarget(options, async (parts) => {
    const logger = createLogger('warn')
    const { database } = parts.config
    const config = url === undefined ? parts.config : { ...parts.config, database: { ...database, url } }
    const store = await openStore(config, logger)
    try {
      if (isPreparing) await prepareBeside(store, config, logger)
      await work({ ...parts, store })
    } catch (error) {
      throw failedOrStopped(error, parts.signal)
    } finally {
      await store.close()
    }
  })
}
