import { type RawBuilder, sql } from 'kysely'
import { stringify } from 'lossless-json'
import type { Extra, TimeMs } from '../../market/values.js'

/** `baseCoin` → `base_coin`, `volume24h` → `volume_24h`, `bid1Price` → `bid1_price`. */
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

/** What a column holds: how its values travel to the server and what they become there. */
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
  /** From an element to the column's value, in SQL. */
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

/**
 * A source of rows for `from`: `select <columns> from unnest($1::…[], …) with ordinality`, one parameter per column however
 * many rows there are. `ordinality` is the row's place, from 1.
 */
export function rowsFrom<Row>(
  rows: readonly Row[],
  columns: readonly ColumnSpec[],
  valueOf: (row: Row, index: number) => ColumnValue,
): RawBuilder<unknown> {
  const arrays = columns.map((_, index) => {
    const texts = new Array<string>(rows.length)
    let [last, text]: [ColumnValue | undefined, string] = [undefined, '']
    for (const [place, row] of rows.entries()) {
      const value = valueOf(row, index)
      // Of the rows of one response, whole columns are often the same.
      if (value !== last) [last, text] = [value, elementText(value)]
      texts[place] = text
    }
    return `{${texts.join(',')}}`
  })
  return sql(sourceText(columns), ...arrays)
}

/** The text of each source around its parameters: putting it together takes longer than writing a few rows. */
const sourceTexts = new WeakMap<readonly ColumnSpec[], TemplateStringsArray>()

function sourceText(columns: readonly ColumnSpec[]): TemplateStringsArray {
  const known = sourceTexts.get(columns)
  if (known !== undefined) return known
  const selected = columns.map(({ name, kind }) => {
    const { cast } = transports[kind]
    return cast ? `${cast(`u."${name}"`)} as "${name}"` : `u."${name}"`
  })
  const types = columns.map(({ kind }) => `::${transports[kind].type}[]`)
  const names = [...columns.map(({ name }) => name), 'ordinality'].map((name) => `"${name}"`)
  const last = `${types.at(-1) ?? ''}) with ordinality as u (${names.join(', ')}))`
  const first = `(select ${selected.join(', ')}, u.ordinality from unnest(`
  const texts = [first, ...types.slice(0, -1).map((type) => `${type}, `), last]
  const text = Object.assign(texts, { raw: texts })
  sourceTexts.set(columns, text)
  return text
}

export function columnNames(columns: readonly ColumnSpec[], prefix?: string): RawBuilder<unknown> {
  return sql.raw(columns.map(({ name }) => (prefix === undefined ? `"${name}"` : `${prefix}."${name}"`)).join(', '))
}

const needsEscape = /["\\\0]/
const lossyJsonEscapes = /\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}/gi

/** An element of an array literal. All text but NULL is quoted, so that no value can be taken for two. */
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

/** JSON text that the server takes: numbers as they were sent, NUL and lone surrogates replaced. */
export function toJson(value: unknown): string {
  const text = stringify(value) ?? 'null'
  return text.replaceAll(lossyJsonEscapes, (match) => (match === '\\\\' ? match : '\u{fffd}'))
}

/** For a parameter of type timestamptz. */
export function toDate(time: TimeMs): Date {
  return new Date(time)
}
