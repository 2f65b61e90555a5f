import { resolve } from 'node:path'
import { InvalidArgumentError, Option } from 'commander'
import { ConfigError } from '../config/configError.js'
import type { Config } from '../config/resolve.js'
import { folderTarget } from '../store/archive/folder.js'
import { archivedTableNames } from '../market/archivedTable.js'
import type { ArchiveTarget } from '../store/archive/target.js'

/** Opens the archive that the configuration names. */
export function openArchive({ archive: { folder } }: Config): ArchiveTarget {
  if (folder === undefined) {
    throw new ConfigError(['there is no archive: set archive.folder in the configuration, and give that with --config'])
  }
  return folderTarget(resolve(folder))
}

export function tableOption(what: string): Option {
  return new Option('--table <table...>', what).choices(archivedTableNames)
}

/** A day in UTC, as the archive names it. */
export function day(text: string): string {
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
  if (!isDay) throw new InvalidArgumentError('Write a day in UTC, such as 2026-03-01.')
  return text
}
