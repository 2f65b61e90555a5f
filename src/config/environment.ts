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
