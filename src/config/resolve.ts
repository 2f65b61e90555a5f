import { type StreamName, streamTraits, type TimeStream, timeStreams } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import type { z } from 'zod'
import { ConfigError, problemsOf, readText } from './configError.js'
import { type Environment, withEnvironment, withSecretFiles } from './environment.js'
import { type ConfigSource, describeMistake, mistakesOf, parseYaml } from './problems.js'
import { configSchema } from './schema.js'

/** The complete configuration. Every option has a value or its default. */
export type Config = z.output<typeof configSchema>

/**
 * Reads the configuration: defaults, then `file` (YAML), then the environment.
 * Throws a `ConfigError` that lists the problems, one line each.
 */
export function loadConfig({ file, env }: { file?: string | undefined; env: Environment }): Config {
  if (file === undefined) return resolveConfig(env)
  return resolveConfig(env, parseYaml(readText(file, 'give --config the path of a readable YAML file'), file))
}

const nothing: ConfigSource = { value: {}, place: () => 'configuration' }

/** Combines defaults, then `source`, then the environment. Throws a `ConfigError` that lists the problems. */
export function resolveConfig(env: Environment, source = nothing): Config {
  const { input, variableAt } = withEnvironment(source.value, withSecretFiles(env))
  const result = configSchema.safeParse(input)
  if (result.success) return result.data
  const place = (path: readonly PropertyKey[]) => variableAt(path) ?? source.place(path)
  const mistakes = result.error.issues.flatMap((issue) => mistakesOf(issue))
  throw new ConfigError(problemsOf(mistakes, (mistake) => describeMistake(mistake, input, place)))
}

export function hasArchive({ folder, bucket }: Pick<Config['archive'], 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}

type Table = Config['storage'][(typeof streamTraits)[TimeStream]['options']] & {
  /** True if only the archiver removes rows, after it has archived them. */
  readonly isArchived: boolean
}

type Storage = Readonly<Record<TimeStream, Table>>

/** Returns how each table is kept, by its name. */
export function storageOf({ storage, archive }: Config): Storage {
  const kept = timeStreams.map((name) => {
    const isArchived = hasArchive(archive) && archive.tables.includes(name)
    return [name, { ...storage[streamTraits[name].options], isArchived }] as const
  })
  return Object.fromEntries(kept) as Record<TimeStream, Table>
}

/** Returns how long the table of a stream keeps its rows; null: for ever. */
export function keptMs(storage: Storage, stream: StreamName): number | null {
  const table = timeStreams.find((name) => name === stream)
  const retentionDays = table && storage[table].retentionDays
  return retentionDays === undefined ? null : retentionDays * dayMs
}
