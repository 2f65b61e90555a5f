import { Command, InvalidArgumentError, Option } from 'commander'
import { type Config, setsOptions } from '../config/resolve.js'

/** The configuration where nobody sets anything: the build computes it, because the schema takes longer to load than most commands to run. */
declare const bundledDefaults: Config

export interface CommonOptions {
  readonly config?: string
  readonly dataDir?: string
}

/** A command that works with the configuration, with the options that all of these share. */
export function configuredCommand(name: string): Command {
  return new Command(name)
    .option('--config <file>', 'configuration in YAML; every option has a default')
    .option('--data-dir <folder>', 'folder of the embedded database (default: database.dataDir, ./data)')
}

export function acceptNewUrlOption(): Option {
  return new Option(
    '--accept-new-url',
    'record into a database that holds what another host sent: the service has moved',
  )
}

/** The configuration that a command works with: defaults, file, environment, then the command line. */
export async function readConfig(options: CommonOptions): Promise<Config> {
  const config = options.config === undefined ? await withoutFile() : await readFile(options.config)
  if (options.dataDir !== undefined) config.database.dataDir = options.dataDir
  return config
}

async function withoutFile(): Promise<Config> {
  if (typeof bundledDefaults !== 'undefined' && !setsOptions(process.env)) return structuredClone(bundledDefaults)
  const { resolveConfig } = await import('../config/resolve.js')
  return resolveConfig(process.env)
}

/** YAML is only loaded for who has a file. */
async function readFile(file: string): Promise<Config> {
  const { loadConfig } = await import('../config/resolve.js')
  return loadConfig({ file, env: process.env })
}

/** A day in UTC, as the archive names it. */
export function day(text: string): string {
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
  if (!isDay) throw new InvalidArgumentError('Write a day in UTC, such as 2026-03-01.')
  return text
}

/** Reads a whole number between two bounds. */
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
