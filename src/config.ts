import { readFileSync } from 'node:fs'

import type { z } from 'zod'

import { ConfigError } from './config/configError.js'
import { describeProblem } from './config/problems.js'
import { configSchema } from './config/schema.js'
import { parseYaml, type SourceMap } from './config/yamlSource.js'

export { ConfigError } from './config/configError.js'

/** The configuration, complete: every option has its value or its default. */
export type Config = z.output<typeof configSchema>

type Environment = Readonly<Record<string, string | undefined>>

/** Environment variables that take precedence over the file, with the option that each one sets. */
const environmentOptions = {
  DATABASE_URL: ['database', 'url'],
  DATABASE_READ_URL: ['database', 'readUrl'],
  EXCHANGE_BASE_URL: ['exchange', 'baseUrl'],
  LOG_LEVEL: ['log', 'level'],
} as const

/**
 * Reads the configuration: defaults, then `file` (YAML), then the environment.
 * Throws a `ConfigError` that lists every problem, one line each.
 */
export function loadConfig(options: { file?: string | undefined; env: Environment }): Config {
  const source: SourceMap =
    options.file === undefined
      ? { value: {}, place: () => 'configuration' }
      : parseYaml(readConfigFile(options.file), options.file)
  const { input, variableAt } = withEnvironment(source.value, withSecretFiles(options.env))
  const result = configSchema.safeParse(input)
  if (result.success) return result.data
  const place = (path: readonly PropertyKey[]) => variableAt(path) ?? source.place(path)
  throw new ConfigError(result.error.issues.flatMap((issue) => describeProblem(issue, input, place)))
}

function readConfigFile(file: string): string {
  return readText(file, 'give --config the path of a readable YAML file')
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

function readText(file: string, advice: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why =
      code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'no permission to read it' : String(code)
    throw new ConfigError([`${file}: ${why}; ${advice}`], { cause: error })
  }
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
    input = { ...input, [section]: { ...inner, [key]: text } }
    used.set(`${section}.${key}`, variable)
  }
  return { input, variableAt: (path: readonly PropertyKey[]) => used.get(path.join('.')) }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
