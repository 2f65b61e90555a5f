import { type RawBuilder, sql } from 'kysely'
import { stringify } from 'lossless-json'
import { completeness, wholeSum } from '../../migrations/relations.js'
import type { DatabaseMs, Extra } from '../market/values.js'

/** Converts names: `baseCoin` to `base_coin`, `volume24h` to `volume_24h`, `bid1Price` to `bid1_price`. */
export type SnakeCase<Name extends string> = Name extends `${infer Start}24h${infer Rest}`
  ? `${Snake<Start>}_24h${SnakeCase<Rest>}`
  : Snake<Name>
type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? First extends Lowercase<First>
    ? `${First}${Snake<Rest>}`
    : `_${Lowercase<First>}${Snake<Rest>}`
  : ''

export function snakeCase<Name extends string>(name: Name): SnakeCase<Name> {
  return name
    .replaceAll('24h', '_24h')
    .replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    .replaceAll('__', '_') as SnakeCase<Name>
}

/** Type of a column's values. It decides how values are sent to the server and cast there. */
export type ColumnKind = 'text' | 'boolean' | 'integer' | 'decimal' | 'decimals' | 'time' | 'json' | EnumKind
type EnumKind = 'category' | 'candle_type' | 'candle_interval' | 'side'

export interface ColumnSpec {
  readonly name: string
  readonly kind: ColumnKind
}

export type ColumnValue = string | number | boolean | null | readonly string[] | Extra

interface Transport {
  /** Element type of the array parameter. */
  readonly type: string
  /** Returns SQL that casts an element to the column's value. */
  readonly cast?: (element: string) => string
}

const transports: Record<ColumnKind, Transport> = {
  text: { type: 'text' },
  boolean: { type: 'boolean' },
  integer: { type: 'bigint' },
  decimal: { type: 'numeric' },
  // unnest would flatten an array of arrays, so each travels as the text of an array.
  decimals: { type: 'text', cast: (element) => `${element}::numeric[]` },
  time: { type: 'float8', cast: (element) => `to_timestamp(${element} / 1000)` },
  json: { type: 'jsonb' },
  category: { type: 'market.category' },
  candle_type: { type: 'market.candle_type' },
  candle_interval: { type: 'market.candle_interval' },
  side: { type: 'market.side' },
}

/** From this many rows on, a column that is equal in all rows is sent once. The server reads arrays by elements. */
const minSharedRows = 16

/**
 * Builds a source of rows for `from`: `select <columns> from unnest($1::…[], …) with ordinality`. It has one parameter
 * per column, for any number of rows. `ordinality` is the row's place, from 1.
 */
export function rowsFrom<Row>(
  rows: readonly Row[],
  columns: readonly ColumnSpec[],
  valueOf: (row: Row, index: number) => ColumnValue,
): RawBuilder<unknown> {
  const shared: string[] = []
  const arrays: string[] = []
  let kinds = ''
  for (let column = 0; column < columns.length; column++) {
    const texts = elementTexts(rows, column, valueOf)
    // At least one column must be an array, because it gives the number of rows.
    const isShared =
      texts.isShared && rows.length >= minSharedRows && (arrays.length > 0 || column < columns.length - 1)
    if (isShared) shared.push(`{${texts.elements[0] ?? ''}}`)
    else arrays.push(`{${texts.elements.join(',')}}`)
    kinds += isShared ? '1' : 'n'
  }
  return sql(sourceText(columns, kinds), ...shared, ...arrays)
}

/**
 * Formats values as the text of an array, for a parameter that is cast to one. The array is empty if all values are
 * null, because `unnest` then returns nulls.
 */
export function arrayText<Row>(rows: readonly Row[], valueOf: (row: Row) => ColumnValue): string {
  const { elements, isShared } = elementTexts(rows, 0, valueOf)
  return isShared && elements[0] === 'NULL' ? '{}' : `{${elements.join(',')}}`
}

/** Formats one column of rows as elements of an array literal. `isShared` is true if all elements are equal. */
function elementTexts<Row>(
  rows: readonly Row[],
  column: number,
  valueOf: (row: Row, index: number) => ColumnValue,
): { readonly elements: readonly string[]; readonly isShared: boolean } {
  const elements = new Array<string>(rows.length)
  let [last, text]: [ColumnValue | undefined, string] = [undefined, '']
  let changes = 0
  // Counts indexes, because iterators over thousands of rows for each column would create too much garbage.
  for (let index = 0; index < rows.length; index++) {
    const value = valueOf(rows[index] as Row, column)
    if (value !== last) {
      last = value
      text = elementText(value)
      changes++
    }
    elements[index] = text
  }
  return { elements, isShared: changes === 1 }
}

/**
 * Text of each source around its parameters, for each set of shared columns. It is kept, because composing it takes
 * longer than writing a few rows. Ordinary responses share few sets, and hostile ones would share ever new ones.
 */
const sourceTexts = new WeakMap<readonly ColumnSpec[], Map<string, TemplateStringsArray>>()
const maxTexts = 200

/** Marks the place of a parameter in a text. */
const parameter = '\0'

function sourceText(columns: readonly ColumnSpec[], kinds: string): TemplateStringsArray {
  let texts = sourceTexts.get(columns)
  if (texts === undefined) sourceTexts.set(columns, (texts = new Map<string, TemplateStringsArray>()))
  const known = texts.get(kinds)
  if (known !== undefined) return known
  const selected = columns.map(({ name, kind }, column) => {
    const { type, cast = (element: string) => element } = transports[kind]
    return `${cast(kinds[column] === '1' ? `(${parameter}::${type}[])[1]` : `u."${name}"`)} as "${name}"`
  })
  const arrays = columns.filter((_, column) => kinds[column] === 'n')
  const unnested = arrays.map(({ kind }) => `${parameter}::${transports[kind].type}[]`)
  const names = [...arrays.map(({ name }) => name), 'ordinality'].map((name) => `"${name}"`)
  const source = `(select ${selected.join(', ')}, u.ordinality from unnest(${unnested.join(', ')})`
  const parts = `${source} with ordinality as u (${names.join(', ')}))`.split(parameter)
  const text = Object.assign(parts, { raw: parts })
  if (texts.size < maxTexts) texts.set(kinds, text)
  return text
}

export function columnNames(columns: readonly ColumnSpec[], prefix?: string): RawBuilder<unknown> {
  return sql.raw(columns.map(({ name }) => (prefix === undefined ? `"${name}"` : `${prefix}."${name}"`)).join(', '))
}

const needsEscape = /["\\\0]/
const lossyJsonEscapes = /\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}/gi

/** Formats an element of an array literal. All text but NULL is quoted, so that the server cannot split a value. */
function elementText(value: ColumnValue): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'object')
    return Array.isArray(value) ? decimalsText(value as readonly string[]) : jsonText(value as Extra)
  return String(value)
}

function quoted(text: string): string {
  // The server cannot store NUL in text.
  return needsEscape.test(text) ? `"${text.replaceAll('\0', '\u{fffd}').replaceAll(/["\\]/g, '\\$&')}"` : `"${text}"`
}

function decimalsText(decimals: readonly string[]): string {
  return quoted(`{${decimals.join(',')}}`)
}

function jsonText(value: Extra): string {
  for (const _ in value) return quoted(toJson(value))
  return '"{}"'
}

/** Formats JSON text that the server accepts. Numbers stay as they were sent; NUL and lone surrogates are replaced. */
export function toJson(value: unknown): string {
  const text = stringify(value) ?? 'null'
  return text.replaceAll(lossyJsonEscapes, (match) => (match === '\\\\' ? match : '\u{fffd}'))
}

/** Converts a time for a parameter whose type the server must know, for example to plan which chunks to read. */
export function instant<Time extends number>(time: Time): RawBuilder<Time> {
  return sql`${new Date(time)}::timestamptz`
}

/** Returns a length of time as an interval of the database. */
export function duration(ms: number): RawBuilder<string> {
  return sql`make_interval(secs => ${ms / 1000}::float8)`
}

/** Returns the time that lies `ms` after the beginning of the transaction. */
export function inFuture(ms: number): RawBuilder<never> {
  return sql`now() + ${duration(ms)}`
}

/**
 * Returns SQL that is true once a time has come that was set `ms` ahead. It is also true for a time that lies further
 * ahead than that, because the database's clock was set back since. Twice the length bears small steps.
 */
export function isReached(column: string, ms: number): RawBuilder<boolean> {
  const time = sql.ref(column)
  return sql`(${time} <= now() or ${time} > clock_timestamp() + ${duration(2 * ms)})`
}

/** Returns the time that lies `ms` before the beginning of the transaction. */
export function ago(ms: number): RawBuilder<DatabaseMs> {
  return sql`now() - ${duration(ms)}`
}

/** Returns SQL for a sum that is unknown as soon as one of its parts is. */
export function wholeSumOf(column: 'base_volume' | 'quote_turnover', alias?: string): RawBuilder<string | null> {
  return sql.raw(wholeSum(alias === undefined ? column : `${alias}.${column}`))
}

/** Returns the last columns of a view of stored rollups, which reads a relation named `r`. */
export function completenessOf(widthMs: number): RawBuilder<unknown> {
  return sql.raw(completeness(`${widthMs} milliseconds`, 'stored'))
}
