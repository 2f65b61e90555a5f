import { createHash } from 'node:crypto'
import type { Encoding, SchemaElement } from 'hyparquet'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import { type DecimalExtent, type DecimalShape, type DecimalType, storeDecimal, widestUsual } from './decimals.js'

/** How a column of the database becomes one of a Parquet file. */
export interface ParquetColumn {
  readonly name: string
  readonly schema: readonly SchemaElement[]
  /** The SQL that gives the text from which `convert` makes the value as a file stores it. */
  expression(quoted: string): string
  readonly convert: (text: string) => unknown
  /** Default: the writer's choice between a dictionary and plain values. */
  readonly encoding?: Encoding
}

/** The type of each column; of its decimals the shape, by default one with room for all that was ever seen. */
export function parquetColumn({ name, type }: QueryColumn, shape: DecimalShape = widestUsual): ParquetColumn {
  const plain = { name, expression: (quoted: string) => quoted }
  const optional = (element: Partial<SchemaElement>): SchemaElement[] => [
    { name, repetition_type: 'OPTIONAL', field_id: fieldId(name, isDecimal(type) ? shape : undefined), ...element },
  ]
  const text = { ...plain, schema: optional(utf8), expression: (quoted: string) => `${quoted}::text`, convert: same }
  switch (type) {
    case 'numeric':
      if (shape === 'text') return text
      return { ...plain, schema: optional(decimalElement(shape)), convert: storeDecimal(name, shape) }
    case '_numeric': {
      const one = shape === 'text' ? same : storeDecimal(name, shape)
      return {
        ...plain,
        schema: [
          ...optional({ converted_type: 'LIST', num_children: 1 }),
          { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
          {
            name: 'element',
            repetition_type: 'OPTIONAL',
            field_id: fieldId(`${name}.element`, shape),
            ...(shape === 'text' ? utf8 : decimalElement(shape)),
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
      // The vectorised reader of Iceberg in Spark refuses runs of booleans.
      return { ...plain, schema: optional({ type: 'BOOLEAN' }), convert: (value) => value === 't', encoding: 'PLAIN' }
    default:
      return text
  }
}

/**
 * Number of a column in all files of a table, by which Iceberg finds it. It follows from the name, so that no file needs to know
 * another one. Iceberg never changes the scale of a decimal: a column of another scale is another column.
 */
export function fieldId(name: string, shape?: DecimalShape): number {
  const hash = createHash('sha256').update(name).digest().readUIntBE(0, 3)
  const kind = shape === undefined ? 63 : shape === 'text' ? 62 : shape.scale
  return hash * 64 + kind + 1
}

const utf8 = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const

function decimalElement({ precision, scale }: DecimalType): Partial<SchemaElement> {
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

/** `{1.0,2}` as its elements; decimals need no quotes. */
export function elements(text: string): string[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',')
}

/** Columns as the writer takes them: values that were made by `convert`. */
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

/** Compressed, 16 bytes of which few differ take less than a place in a dictionary and their share of that. */
function hardlyRepeats(data: readonly unknown[]): boolean {
  const maxDifferent = data.length / 8
  // Equal values are one array, as long as there are few of them.
  const found = new Set<unknown>()
  for (const value of data) {
    if (found.add(value).size > maxDifferent) return true
  }
  return false
}

export function isDecimal(type: string): boolean {
  return type === 'numeric' || type === '_numeric'
}

/** The list of a SELECT whose one row gives the room that the decimals of these columns need; empty when there are none. */
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

/** Reads the row of an `extentList`, by column. */
export function extentsIn(row: QueryRow, columns: readonly QueryColumn[]): Map<string, DecimalExtent> {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  return new Map(decimals.map(({ name }, i) => [name, extentOf(row[i * 2] ?? null, row[i * 2 + 1] ?? null)]))
}

function extentOf(max: string | null, scale: string | null): DecimalExtent {
  // NaN and infinities have no digits; they do not fit any decimal type.
  const digits = max === null ? 0 : /^\d/.test(max) ? max.split('.')[0]?.replace(/^0$/, '').length : 99
  return { digits: digits ?? 0, scale: Number(scale ?? 0) }
}

/** A name as SQL takes it, whatever is in it. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
