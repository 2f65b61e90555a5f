import { type StreamName, streamTraits, type TimeStream, timeStreams } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import type { z } from 'zod'
import { ConfigError, problemsOf, readText } from './configError.js'
import { type ConfigSource, describeMistake, mistakesOf, parseYaml } from './problems.js'
import { configSchema } from './schema.js'

/** The configuration, complete: every option has its value or its default. */
export type Config = z.output<typeof configSchema>

export type Environment = Readonly<Record<string, string | undefined>>

/** Environment variables that take precedence over the file, with the option that each one sets. */
export const environmentOptions = {
  DATABASE_URL: ['database', 'url'],
  DATABASE_READ_URL: ['database', 'readUrl'],
  EXCHANGE_BASE_URL: ['exchange', 'baseUrl'],
  EXCHANGE_LOCAL_ADDRESS: ['exchange', 'localAddress'],
  EXCHANGE_PROXY: ['exchange', 'proxy'],
  COLLECTOR_EGRESS: ['collector', 'egress'],
  SERVE_PORT: ['serve', 'port'],
  LOG_LEVEL: ['log', 'level'],
} as const

/** Variables of which `<name>_FILE` may name a file instead: a secret in a file stays out of what other programs can see. */
export const secretVariables = ['DATABASE_URL', 'DATABASE_READ_URL', 'EXCHANGE_PROXY'] as const

/** Returns true if the environment sets at least one option. */
export function setsOptions(env: Environment): boolean {
  const variables = [...Object.keys(environmentOptions), ...secretVariables.map((name) => `${name}_FILE`)]
  // Many shell scripts set a variable to the empty string to mean "not set".
  return variables.some((name) => env[name] !== undefined && env[name] !== '')
}

/**
 * Reads the configuration: defaults, then `file` (YAML), then the environment.
 * Throws a `ConfigError` that lists the problems, one line each.
 */
export function loadConfig({ file, env }: { file?: string | undefined; env: Environment }): Config {
  if (file === undefined) return resolveConfig(env)
  return resolveConfig(env, parseYaml(readText(file, 'give --config the path of a readable YAML file'), file))
}

const nothing: ConfigSource = { value: {}, place: () => 'configuration' }

/** The configuration of defaults, then `source`, then the environment. Throws a `ConfigError` that lists the problems. */
export function resolveConfig(env: Environment, source = nothing): Config {
  const { input, variableAt } = withEnvironment(source.value, withSecretFiles(env))
  const result = configSchema.safeParse(input)
  if (result.success) return result.data
  const place = (path: readonly PropertyKey[]) => variableAt(path) ?? source.place(path)
  const mistakes = result.error.issues.flatMap((issue) => mistakesOf(issue))
  throw new ConfigError(problemsOf(mistakes, (mistake) => describeMistake(mistake, input, place)))
}

function withSecretFiles(env: Environment): Environment {
  const fromFiles: Record<string, string> = {}
  for (const variable of secretVariables) {
    const url = env[variable]
    const file = env[`${variable}_FILE`]
    if (file === undefined || file === '' || (url !== undefined && url !== '')) continue
    fromFiles[variable] = readText(
      file,
      `${variable}_FILE is the path of a file that holds what ${variable} would`,
    ).trim()
  }
  return { ...env, ...fromFiles }
}

function withEnvironment(value: unknown, env: Environment) {
  const used = new Map<string, string>()
  let input = value
  for (const [variable, [section, key]] of Object.entries(environmentOptions)) {
    const text = env[variable]
    // Set but empty is how many a shell script says "not set".
    if (text === undefined || text === '' || !isRecord(input)) continue
    const inner = input[section] ?? {}
    if (!isRecord(inner)) continue
    input = { ...input, [section]: { ...inner, [key]: key === 'port' && /^\d+$/.test(text) ? Number(text) : text } }
    used.set(`${section}.${key}`, variable)
  }
  return { input, variableAt: (path: readonly PropertyKey[]) => used.get(path.join('.')) }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function hasArchive({ folder, bucket }: Pick<Config['archive'], 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}

type Table = Config['storage'][(typeof streamTraits)[TimeStream]['options']] & {
  /** Rows leave only when they are in the archive, which is for the archiver to say. */
  readonly isArchived: boolean
}

type Storage = Readonly<Record<TimeStream, Table>> & { readonly rejected_row: Config['storage']['rejectedRows'] }

/** How each table is kept, by its name. */
export function storageOf({ storage, archive }: Config): Storage {
  const kept = timeStreams.map((name) => {
    const isArchived = hasArchive(archive) && archive.tables.includes(name)
    return [name, { ...storage[streamTraits[name].options], isArchived }] as const
  })
  return { ...(Object.fromEntries(kept) as Record<TimeStream, Table>), rejected_row: storage.rejectedRows }
}

/** How long the table of a stream keeps its rows; null: for ever. */
export function keptMs(storage: Storage, stream: StreamName): number | null {
  const table = timeStreams.find((name) => name === stream)
  const retentionDays = table && storage[table].retentionDays
  return retentionDays === undefined ? null : retentionDays * dayMs
}
