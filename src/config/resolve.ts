import type { z } from 'zod'
import { ConfigError, problemsOf } from './configError.js'
import { type Environment, environmentOptions, secretVariables } from './environment.js'
import { describeMistake, mistakesOf } from './problems.js'
import { readText } from './readText.js'
import { configSchema } from './schema.js'

/** The configuration, complete: every option has its value or its default. */
export type Config = z.output<typeof configSchema>

/** The value that a configuration file holds, with the position of each part in its text. */
export interface ConfigSource {
  readonly value: unknown
  /** `file:line` of the key or value at `path`, or of its nearest ancestor that is written in the file. */
  place(path: readonly PropertyKey[]): string
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
