import { InvalidArgumentError, Option } from 'commander'
import { type Config, loadConfig } from '../config.js'

export interface CommonOptions {
  readonly config?: string
  readonly dataDir?: string
}

export function configOption(): Option {
  return new Option('--config <file>', 'configuration in YAML; every option has a default')
}

export function dataDirOption(): Option {
  return new Option('--data-dir <folder>', 'folder of the embedded database (default: database.dataDir, ./data)')
}

/** The configuration that a command works with: defaults, file, environment, then the command line. */
export function readConfig(options: CommonOptions): Config {
  const config = loadConfig({ file: options.config, env: process.env })
  if (options.dataDir !== undefined) config.database.dataDir = options.dataDir
  return config
}

export function positiveSeconds(text: string): number {
  const seconds = Number(text)
  if (!Number.isFinite(seconds) || seconds <= 0) {
    throw new InvalidArgumentError('Give a number of seconds above zero, such as 60.')
  }
  return seconds
}
