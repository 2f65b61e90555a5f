import { Command, InvalidArgumentError, Option } from 'commander'
import { ConfigError, readText } from '../config/configError.js'
import { setsOptions } from '../config/environment.js'
import type { Config } from '../config/resolve.js'
import { isDay, parseTime, serviceMs, type ServiceMs } from '../market/values.js'

/** Configuration of defaults, computed by the build. Loading the schema takes longer than most commands run. */
declare const bundledDefaults: Config

export interface CommonOptions {
  readonly config?: string
  readonly dataDir?: string
}

/** Creates a command that uses the configuration. All such commands share these options. */
export function configuredCommand(name: string): Command {
  return new Command(name)
    .option('--config <file>', 'configuration in YAML, - for standard input; every option has a default')
    .option('--data-dir <folder>', 'folder of the embedded database (default: database.dataDir, ./data)')
}

export function acceptNewUrlOption(): Option {
  return new Option(
    '--accept-new-url',
    'record into a database that holds what another service sent: the service has moved',
  )
}

/** Reads the configuration for a command: defaults, file, environment, then the command line. */
export async function readConfig(options: CommonOptions): Promise<Config> {
  return (await readConfigAndText(options)).config
}

/** Reads the configuration, and returns the text of its file too; an empty text without a file. */
export async function readConfigAndText({ config: file, dataDir }: CommonOptions) {
  const text = file === undefined ? '' : readText(file, 'give --config the path of a readable YAML file')
  const config = file === undefined ? await withoutFile() : await parseFile(text, file)
  if (dataDir !== undefined) config.database.dataDir = dataDir
  return { config, text }
}

async function withoutFile(): Promise<Config> {
  if (typeof bundledDefaults !== 'undefined' && !setsOptions(process.env)) return structuredClone(bundledDefaults)
  const { resolveConfig } = await import('../config/resolve.js')
  return resolveConfig(process.env)
}

/** Parses the text of a configuration file. Code for YAML is only loaded if there is a file. */
async function parseFile(text: string, file: string): Promise<Config> {
  const { resolveConfig } = await import('../config/resolve.js')
  const { parseYaml } = await import('../config/yaml.js')
  return resolveConfig(process.env, parseYaml(text, file))
}

/** Parses a day in UTC, such as 2026-03-01. */
export function day(text: string): string {
  if (!isDay(text)) throw new InvalidArgumentError('Write a day in UTC, such as 2026-03-01.')
  return text
}

/** Parses a moment, as `parseTime` reads it. */
export function moment(text: string): ServiceMs {
  const moment = parseTime(text)
  if (moment === null) {
    throw new InvalidArgumentError('Give a time such as 2026-01-31 or 2026-01-31T12:00, in UTC unless it has a zone.')
  }
  return serviceMs(moment)
}

/** Creates an option that takes some of these names, in any case. */
export function namesOption(flags: string, what: string, names: readonly string[]): Option {
  const nameOf = (text: string) => names.find((name) => name.toLowerCase() === text.toLowerCase())
  return new Option(flags, what)
    .choices([...names])
    .argParser((text: string, before: readonly string[] | undefined) => {
      const name = nameOf(text)
      if (name === undefined) throw new InvalidArgumentError(`Allowed choices are ${names.join(', ')}.`)
      return [...(before ?? []), name]
    })
}

/** Returns the given options. Throws if any are missing, and names all of them. */
export function requireOptions<Options extends Readonly<Record<string, unknown>>>(
  given: Options,
): { [Name in keyof Options]: NonNullable<Options[Name]> } {
  const missing = Object.keys(given).filter((name) => given[name] === undefined)
  if (missing.length > 0) throw new ConfigError([`missing: ${missing.map((name) => `--${name}`).join(', ')}`])
  return given as { [Name in keyof Options]: NonNullable<Options[Name]> }
}

/** Returns a parser for a whole number between two bounds. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d{1,9}$/.test(text) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`)
  }
}

export function positiveSeconds(text: string): number {
  const seconds = Number(text)
  if (!Number.isFinite(seconds) || seconds <= 0) {
    throw new InvalidArgumentError('Give a number of seconds above zero, such as 60.')
  }
  return seconds
}
