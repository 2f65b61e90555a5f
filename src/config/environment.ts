// This module does not import the schema, which takes longer to load than most commands run.
import { ConfigError, readText } from './configError.js'

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
  SERVE_PASSWORD: ['serve', 'password'],
  LOG_LEVEL: ['log', 'level'],
} as const

/** Variables with a variant `<name>_FILE` that names a file. A secret in a file is hidden from other programs. */
export const secretVariables = ['DATABASE_URL', 'DATABASE_READ_URL', 'EXCHANGE_PROXY', 'SERVE_PASSWORD'] as const

/** Returns true if the environment sets at least one option. */
export function setsOptions(env: Environment): boolean {
  const variables = [...Object.keys(environmentOptions), ...secretVariables.map((name) => `${name}_FILE`)]
  return variables.some((name) => isSet(env[name]))
}

/** Returns the environment with the secrets from files that variables `<name>_FILE` name. */
function withSecretFiles(env: Environment): Environment {
  const fromFiles: Record<string, string> = {}
  for (const variable of secretVariables) {
    const file = env[`${variable}_FILE`]
    if (!isSet(file) || isSet(env[variable])) continue
    const advice = `give it the path of a file that holds what ${variable} would`
    // The secret itself may have been given in place of the path.
    const text = readText(file, advice, `${variable}_FILE`).trim()
    if (text === '') throw new ConfigError([`${variable}_FILE: it is empty; ${advice}`])
    fromFiles[variable] = text
  }
  return { ...env, ...fromFiles }
}

/** Applies the environment's options to the value of a file. `variableAt` names the variable that set an option. */
export function withEnvironment(value: unknown, given: Environment) {
  const env = withSecretFiles(given)
  const used = new Map<string, string>()
  let input = value
  for (const [variable, [section, key]] of Object.entries(environmentOptions)) {
    const text = env[variable]
    if (!isSet(text) || !isRecord(input)) continue
    const inner = input[section] ?? {}
    if (!isRecord(inner)) continue
    input = { ...input, [section]: { ...inner, [key]: key === 'port' && /^\d+$/.test(text) ? Number(text) : text } }
    used.set(`${section}.${key}`, variable)
  }
  return { input, variableAt: (path: readonly PropertyKey[]) => used.get(path.join('.')) }
}

/** Many shell scripts set a variable to the empty string to mean "not set". */
function isSet(text: string | undefined): text is string {
  return text !== undefined && text !== ''
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
