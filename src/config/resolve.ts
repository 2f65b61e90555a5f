import { z } from 'zod'
import { type StreamName, streamTraits, type TimeStream, timeStreams } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import { withoutLogin } from '../runtime/text.js'
import { ConfigError, problemsOf, readText } from './configError.js'
import { type Environment, withEnvironment } from './environment.js'
import { requirement } from './requirement.js'
import { configSchema } from './schema.js'
import { type ConfigSource, parseYaml } from './yaml.js'

/** The complete configuration. Every option has a value or its default. */
export type Config = z.output<typeof configSchema>

/**
 * Reads the configuration: defaults, then `file` (YAML), then the environment.
 * Throws a `ConfigError` that lists the problems, one line each.
 */
export function loadConfig({ file, env }: { file?: string | undefined; env: Environment }): Config {
  if (file === undefined) return resolveConfig(env)
  return resolveConfig(env, parseYaml(readText(file, 'give --config the path of a readable YAML file'), file))
}

const nothing: ConfigSource = { value: {}, place: () => 'configuration' }

/** Combines defaults, then `source`, then the environment. Throws a `ConfigError` that lists the problems. */
export function resolveConfig(env: Environment, source = nothing): Config {
  const { input, variableAt } = withEnvironment(source.value, env)
  const result = configSchema.safeParse(input)
  const place = (path: readonly PropertyKey[]) => variableAt(path) ?? source.place(path)
  if (result.success) {
    const controlled = controlledTexts(input)
    if (controlled.length === 0) return result.data
    const remove = 'must not have control characters; remove them'
    throw new ConfigError(problemsOf(controlled, (path) => `${place(path)}: ${dotted(path)} ${remove}`))
  }
  const mistakes = result.error.issues.flatMap((issue) => mistakesOf(issue))
  throw new ConfigError(problemsOf(mistakes, (mistake) => describeMistake(mistake, input, place)))
}

export function hasArchive({ folder, bucket }: Pick<Config['archive'], 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}

type Table = Config['storage'][(typeof streamTraits)[TimeStream]['options']] & {
  /** True if only the archiver removes rows, after it has archived them. */
  readonly isArchived: boolean
}

type Storage = Readonly<Record<TimeStream, Table>>

/** Returns how each table is kept, by its name. */
export function storageOf({ storage, archive }: Config): Storage {
  const kept = timeStreams.map((name) => {
    const isArchived = hasArchive(archive) && archive.tables.includes(name)
    return [name, { ...storage[streamTraits[name].options], isArchived }] as const
  })
  return Object.fromEntries(kept) as Record<TimeStream, Table>
}

/** Returns how long the table of a stream keeps its rows; null: for ever. */
export function keptMs(storage: Storage, stream: StreamName): number | null {
  const table = timeStreams.find((name) => name === stream)
  const retentionDays = table && storage[table].retentionDays
  return retentionDays === undefined ? null : retentionDays * dayMs
}

type Path = readonly PropertyKey[]

/** Returns the paths of texts with control characters, which files, requests or the database refuse later. */
function controlledTexts(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value === 'string') return /\p{Cc}/u.test(value) ? [path] : []
  if (typeof value !== 'object' || value === null) return []
  const isList = Array.isArray(value)
  return Object.entries(value).flatMap(([key, inner]) => controlledTexts(inner, [...path, isList ? Number(key) : key]))
}

/** The part of a JSON Schema that this module reads. */
interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly default?: unknown
  /** Reference to a definition that several places share. */
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, SchemaNode>>
  /** Names of the keys of a group whose values all have one schema. */
  readonly propertyNames?: { readonly enum?: readonly string[] }
}

/** One issue of zod. Unknown keys of a group are one issue, so each key is a mistake of its own here. */
interface Mistake {
  readonly issue: z.core.$ZodIssue
  readonly unknownKey?: string
}

function mistakesOf(issue: z.core.$ZodIssue): readonly Mistake[] {
  return issue.code === 'unrecognized_keys' ? issue.keys.map((unknownKey) => ({ issue, unknownKey })) : [{ issue }]
}

/** Returns a line that explains a mistake in `input`: its place, what is wrong and what to do. */
function describeMistake({ issue, unknownKey }: Mistake, input: unknown, place: (path: Path) => string): string {
  const { path } = issue
  if (unknownKey !== undefined) {
    const whole = [...path, unknownKey]
    // Another key may be a whole line, with a password.
    const named = /^[\w-]{1,40}$/.test(unknownKey) ? dotted(whole) : `a key of ${dotted(path)}`
    return `${place(whole)}: ${named} is not an option; options here are ${Object.keys(propertiesOf(nodeAt(path))).join(', ')}; correct or remove it`
  }
  return `${place(path)}: ${dotted(path)} ${requirement(issue)}${received(issue, input)}; ${remedy(path)}`
}

/**
 * Describes the value that was found, without what is secret. A connection string may have its password anywhere, and what
 * is in place of a group may be the secret of one of its options.
 */
function received(issue: z.core.$ZodIssue, input: unknown): string {
  const { path } = issue
  if (['database.url', 'database.readUrl', 'serve.password'].includes(dotted(path))) return ''
  const value = path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], input)
  if (value === null || value === undefined) return ', but is empty'
  if (Array.isArray(value)) return ', but is a list'
  if (typeof value === 'object') return ', but is a group of options'
  if (issue.code === 'invalid_type' && issue.expected === 'object') return ''
  const shown = typeof value === 'string' ? withoutLogin(value) : value
  return `, not ${JSON.stringify(shown).slice(0, 80)}`
}

function remedy(path: Path): string {
  const fallback = nodeAt(path)?.default
  const hasPlainDefault = fallback !== undefined && (typeof fallback !== 'object' || Array.isArray(fallback))
  return hasPlainDefault
    ? `correct it or leave it out for the default, ${JSON.stringify(fallback)}`
    : 'correct it or leave it out'
}

function nodeAt(path: Path): SchemaNode | undefined {
  return path.reduce<SchemaNode | undefined>((node, key) => propertiesOf(node)[String(key)], schemaRoot())
}

function propertiesOf(node: SchemaNode | undefined): Readonly<Record<string, SchemaNode>> {
  const shared = node?.$ref?.split('/').at(-1)
  const { properties, propertyNames } = (shared === undefined ? node : schemaRoot().$defs?.[shared]) ?? {}
  return properties ?? Object.fromEntries((propertyNames?.enum ?? []).map((name) => [name, {}]))
}

let root: SchemaNode | undefined

/** Returns the schema. It is made once, because that takes milliseconds and every problem needs it. */
function schemaRoot(): SchemaNode {
  root ??= z.toJSONSchema(configSchema, { io: 'input' }) as SchemaNode
  return root
}

function dotted(path: Path): string {
  if (path.length === 0) return 'the file'
  return path
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : `${index > 0 ? '.' : ''}${String(key)}`))
    .join('')
}
