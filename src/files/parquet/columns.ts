import { createHash } from 'node:crypto'
import type { Encoding, SchemaElement } from 'hyparquet'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'

/** Converts a column of the database to a column of a Parquet file. */
export interface ParquetColumn {
  readonly name: string
  readonly schema: readonly SchemaElement[]
  /** Returns SQL for the text from which `convert` makes the stored value. */
  expression(quoted: string): string
  readonly convert: (text: string) => unknown
  /** Default: the writer chooses between a dictionary and plain values. */
  readonly encoding?: Encoding
}

/** Returns how a column is stored. The default scale of decimals holds all prices and sizes seen so far. */
export function parquetColumn({ name, type }: QueryColumn, scale: DecimalScale = 18): ParquetColumn {
  const plain = { name, expression: (quoted: string) => quoted }
  const optional = (element: Partial<SchemaElement>): SchemaElement[] => [
    { name, repetition_type: 'OPTIONAL', field_id: fieldId(name, isDecimal(type) ? scale : undefined), ...element },
  ]
  const text = { ...plain, schema: optional(utf8), expression: (quoted: string) => `${quoted}::text`, convert: same }
  switch (type) {
    case 'numeric':
      if (scale === 'text') return text
      return { ...plain, schema: optional(decimalElement(scale)), convert: storeDecimal(name, scale) }
    case '_numeric': {
      const one = scale === 'text' ? same : storeDecimal(name, scale)
      return {
        ...plain,
        schema: [
          ...optional({ converted_type: 'LIST', num_children: 1 }),
          { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
          {
            name: 'element',
            repetition_type: 'OPTIONAL',
            field_id: fieldId(`${name}.element`, scale),
            ...(scale === 'text' ? utf8 : decimalElement(scale)),
          },
        ],
        convert: (value) => elements(value).map((each) => (each === 'NULL' ? null : one(each))),
      }
    }
    case 'timestamptz':
      return {
        ...plain,
        schema: optional({
          type: 'INT64',
          converted_type: 'TIMESTAMP_MICROS',
          logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
        }),
        expression: (quoted) => `(extract(epoch from ${quoted}) * 1000000)::bigint`,
        convert: BigInt,
        encoding: 'DELTA_BINARY_PACKED',
      }
    case 'int2':
    case 'int4':
      return { ...plain, schema: optional({ type: 'INT32' }), convert: Number }
    case 'int8':
      return { ...plain, schema: optional({ type: 'INT64' }), convert: BigInt }
    case 'float4':
    case 'float8':
      return { ...plain, schema: optional({ type: 'DOUBLE' }), convert: Number }
    case 'bool':
      // Spark's vectorised reader for Iceberg refuses run-length encoded booleans, so they are plain.
      return { ...plain, schema: optional({ type: 'BOOLEAN' }), convert: (value) => value === 't', encoding: 'PLAIN' }
    default:
      return text
  }
}

/**
 * Returns the number by which Iceberg finds a column in all files of a table. It depends on name and scale alone,
 * so that files need not know each other. Iceberg cannot change a scale, so another scale is another column.
 */
export function fieldId(name: string, scale?: DecimalScale): number {
  const hash = createHash('sha256').update(name).digest().readUIntBE(0, 3)
  const kind = scale === undefined ? 63 : scale === 'text' ? 62 : scale
  return hash * 64 + kind + 1
}

const utf8 = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const

function decimalElement(scale: number): Partial<SchemaElement> {
  return {
    type: 'FIXED_LEN_BYTE_ARRAY',
    type_length: 16,
    converted_type: 'DECIMAL',
    precision,
    scale,
    logical_type: { type: 'DECIMAL', precision, scale },
  }
}

const same = (text: string): string => text

/** Splits an array such as `{1.0,2}` into its elements. Decimals have no quotes. */
export function elements(text: string): string[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',')
}

export function isDecimal(type: string): boolean {
  return type === 'numeric' || type === '_numeric'
}

/** Builds a SELECT list that measures the digits of the decimal columns, in one row. Empty without such columns. */
export function extentList(columns: readonly QueryColumn[]): string {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  const list = decimals.flatMap(({ name, type }) => {
    const column = quoteName(name)
    const maxOf = (expression: (value: string) => string) =>
      type === 'numeric'
        ? `max(${expression(column)})`
        : `max((select max(${expression('element_')}) from unnest(${column}) as element_))`
    return [maxOf((value) => `abs(${value})`), maxOf((value) => `scale(trim_scale(${value}))`)]
  })
  return list.join(', ')
}

/** Reads the result row of an `extentList`, by column. */
export function extentsIn(row: QueryRow, columns: readonly QueryColumn[]): Map<string, DecimalExtent> {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  return new Map(decimals.map(({ name }, i) => [name, extentOf(row[i * 2] ?? null, row[i * 2 + 1] ?? null)]))
}

function extentOf(max: string | null, scale: string | null): DecimalExtent {
  // NaN and infinities have no digits; they do not fit any decimal type.
  const digits = max === null ? 0 : /^\d/.test(max) ? max.split('.')[0]?.replace(/^0$/, '').length : 99
  return { digits: digits ?? 0, scale: Number(scale ?? 0) }
}

/** Quotes a name for SQL, whatever it contains. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * Digits of every stored decimal, in whole units of the last one. Smaller decimals would overflow in DuckDB, which
 * multiplies up to 18 digits in 64 bits.
 */
const precision = 38

/** Digits after the point that a column stores. `text` stands for a column whose values need more than 38 digits. */
type DecimalScale = number | 'text'

/** Number of digits that the values of a column need. */
export interface DecimalExtent {
  /** Largest number of digits before the point. */
  readonly digits: number
  /** Largest number of digits after the point, without trailing zeros. */
  readonly scale: number
}

/** Returns the scale for values of this extent. It is as small as theirs, to leave room for products. */
export function scaleFor({ digits, scale }: DecimalExtent): DecimalScale {
  return digits + scale <= precision ? scale : 'text'
}

/** Spare digits on each side of the point. They cost nothing, and save most tables from a change of type. */
const spare = 2

/** Adds room for later values, unless that would make the column text. */
export function withSpare(extent: DecimalExtent): DecimalExtent {
  const wider = { digits: extent.digits + spare, scale: extent.scale + spare }
  return scaleFor(wider) === 'text' ? extent : wider
}

/** Thrown for a value that the type of its column cannot hold exactly. */
export class UnfitDecimal extends Error {
  constructor(column: string, value: string, scale: number) {
    super(`${column} holds ${value}, which DECIMAL(${precision}, ${scale}) cannot hold exactly`)
  }
}

/** Largest number of cached decimals. Prices and sizes repeat, but a larger cache would only take memory. */
const maxKnown = 16_384

/**
 * Returns a function that converts the text of a decimal to the stored form. That form counts units of the last digit
 * in 16 bytes, in two's complement, highest byte first. Equal texts may give the same array, so do not change it.
 */
function storeDecimal(column: string, scale: number): (text: string) => Uint8Array {
  const known = new Map<string, Uint8Array>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const small = smallUnits(text, scale)
    const bytes = small === null ? bytesOf(unitsOf(column, text, scale)) : smallBytes(small)
    if (known.size >= maxKnown) known.clear()
    known.set(text, bytes)
    return bytes
  }
}

/** Returns the text of a stored decimal, without trailing zeros. */
export function decimalText(bytes: Uint8Array, scale: number): string {
  const units = unitsIn(bytes)
  if (scale === 0) return String(units)
  const isNegative = units < 0
  const padded = String(isNegative ? -units : units).padStart(scale + 1, '0')
  let end = padded.length
  const point = padded.length - scale
  while (end > point && padded.charCodeAt(end - 1) === zero) end--
  const text = end === point ? padded.slice(0, point) : `${padded.slice(0, point)}.${padded.slice(point, end)}`
  return isNegative ? `-${text}` : text
}

/** Removes trailing zeros from the fraction of a decimal that PostgreSQL printed. */
export function trimmedDecimal(text: string): string {
  const point = text.indexOf('.')
  if (point < 0) return text
  let end = text.length
  while (text.charCodeAt(end - 1) === zero) end--
  return text.slice(0, end - 1 === point ? point : end)
}

const zero = 0x30
const nine = 0x39
const dot = 0x2e

/** Returns the units of a decimal that an exact number can hold, as nearly all can. Returns null for any other text. */
function smallUnits(text: string, scale: number): number | null {
  let units = 0
  let digits = 0
  let fraction = -1
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === dot && fraction < 0 && digits > 0) {
      fraction = 0
      continue
    }
    if (code < zero || code > nine || (fraction >= 0 && ++fraction > scale)) return null
    units = units * 10 + (code - zero)
    digits++
  }
  const missing = scale - Math.max(fraction, 0)
  if (digits === 0 || digits + missing > 15) return null
  return units * 10 ** missing
}

function unitsOf(column: string, text: string, scale: number): bigint {
  const match = /^(-?\d+)(?:\.(\d*?)0*)?$/.exec(text)
  const fraction = match?.[2] ?? ''
  if (match === null || fraction.length > scale) throw new UnfitDecimal(column, text, scale)
  const value = BigInt(`${match[1] ?? ''}${fraction.padEnd(scale, '0')}`)
  const maxUnits = 10n ** BigInt(precision)
  if (value >= maxUnits || value <= -maxUnits) throw new UnfitDecimal(column, text, scale)
  return value
}

function smallBytes(units: number): Uint8Array {
  const bytes = new Uint8Array(16)
  let rest = units
  for (let i = 15; rest > 0; i--) {
    bytes[i] = rest % 256
    rest = Math.floor(rest / 256)
  }
  return bytes
}

function bytesOf(units: bigint): Uint8Array {
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setBigInt64(0, units >> 64n)
  view.setBigUint64(8, BigInt.asUintN(64, units))
  return bytes
}

export function unitsIn({ buffer, byteOffset }: Uint8Array): bigint {
  const view = new DataView(buffer, byteOffset, 16)
  return (view.getBigInt64(0) << 64n) | view.getBigUint64(8)
}
