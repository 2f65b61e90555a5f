import type { z } from 'zod'
import { ConfigError, problemsOf } from './configError.js'
import { describeMistake, mistakesOf } from './problems.js'
import { readText } from './readText.js'
import { configSchema } from './schema.js'

/** The configuration, complete: every option has its value or its default. */
export type Config = z.output<typeof configSchema>

export type Environment = Readonly<Record<string, string | undefined>>

/** What a file says, and where in its text each value stands. */
export interface ConfigSource {
  readonly value: unknown
  /** `file:line` of the key or value at `path`, or of its nearest ancestor that is written in the file. */
  place(path: readonly PropertyKey[]): string
}

const nothing: ConfigSource = { value: {}, place: () => 'configuration' }

/** Environment variables that take precedence over the file, with the option that each one sets. */
const environmentOptions = {
  DATABASE_URL: ['database', 'url'],
  DATABASE_READ_URL: ['database', 'readUrl'],
  EXCHANGE_BASE_URL: ['exchange', 'baseUrl'],
  EXCHANGE_LOCAL_ADDRESS: ['exchange', 'localAddress'],
  COLLECTOR_EGRESS: ['collector', 'egress'],
  SERVE_PORT: ['serve', 'port'],
  LOG_LEVEL: ['log', 'level'],
} as const

/** The configuration of defaults, then `source`, then the environment. Throws a `ConfigError` that lists the problems. */
export function resolveConfig(env: Environment, source = nothing): Config {
  const { input, variableAt } = withEnvironment(source.value, withSecretFiles(env))
  const result = configSchema.safeParse(input)
  if (result.success) return result.data
  const place = (path: readonly PropertyKey[]) => variableAt(path) ?? source.place(path)
  const mistakes = result.error.issues.flatMap((issue) => mistakesOf(issue))
  throw new ConfigError(problemsOf(mistakes, (mistake) => describeMistake(mistake, input, place)))
}

/** A secret that is handed over as a file, as containers do, stays out of the environment, which other programs can see. */
function withSecretFiles(env: Environment): Environment {
  const fromFiles: Record<string, string> = {}
  for (const variable of ['DATABASE_URL', 'DATABASE_READ_URL']) {
    const url = env[variable]
    const file = env[`${variable}_FILE`]
    if (file === undefined || file === '' || (url !== undefined && url !== '')) continue
    fromFiles[variable] = readText(
      file,
      `${variable}_FILE is the path of a file that holds the connection string`,
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
