import { createHash } from 'node:crypto'
import type { Encoding, SchemaElement } from 'hyparquet'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import { type DecimalExtent, type DecimalScale, precision, storeDecimal } from './decimals.js'

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

/** Returns columns in the form that the writer takes. `values` were made by `convert`. */
export function columnsOf(
  columns: readonly ParquetColumn[],
  values: readonly unknown[][],
): { name: string; data: unknown[]; encoding?: Encoding }[] {
  return columns.map(({ name, schema, encoding }, i) => {
    const data = values[i] ?? []
    const isPlain = encoding === undefined && schema[0]?.converted_type === 'DECIMAL' && hardlyRepeats(data)
    const chosen = isPlain ? 'PLAIN' : encoding
    return { name, data, ...(chosen !== undefined && { encoding: chosen }) }
  })
}

/** Returns true if 16-byte values compress better than places in a dictionary, because few of them are equal. */
function hardlyRepeats(data: readonly unknown[]): boolean {
  const maxDifferent = data.length / 8
  // Equal values are the same array, as long as the cache of decimals holds them.
  const found = new Set<unknown>()
  for (const value of data) {
    if (found.add(value).size > maxDifferent) return true
  }
  return false
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
