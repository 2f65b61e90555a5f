import { readText } from './readText.js'
import type { Environment } from './environment.js'
import { type Config, resolveConfig } from './resolve.js'
import { parseYaml } from './yamlSource.js'

/**
 * Reads the configuration: defaults, then `file` (YAML), then the environment.
 * Throws a `ConfigError` that lists the problems, one line each.
 */
export function loadConfig({ file, env }: { file?: string | undefined; env: Environment }): Config {
  if (file === undefined) return resolveConfig(env)
  return resolveConfig(env, parseYaml(readText(file, 'give --config the path of a readable YAML file'), file))
}
