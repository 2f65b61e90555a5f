import type { SchemaElement } from 'hyparquet-writer'
import type { QueryColumn, QueryRow } from '../db/readOnlyQuery.js'

/** What fits all prices and sizes that were ever seen, with room: 20 digits before the point and 18 after it. */
const precision = 38
const scale = 18
const maxUnits = 10n ** BigInt(precision)

/** A value that DECIMAL(38, 18) cannot hold exactly. Its column has to be text. */
export class UnfitDecimal extends Error {
  constructor(
    readonly column: string,
    value: string,
  ) {
    super(`${column} holds ${value}, which DECIMAL(${precision}, ${scale}) cannot hold exactly`)
  }
}

/** How a column of the database becomes one of a Parquet file. */
export interface ParquetColumn {
  readonly name: string
  readonly schema: readonly SchemaElement[]
  /** The SQL that gives the text from which `convert` makes the value. */
  expression(quoted: string): string
  readonly convert: (text: string) => unknown
}

/** The type of each column; decimals of the columns in `asText` are written as text. */
export function parquetColumn({ name, type }: QueryColumn, asText: ReadonlySet<string>): ParquetColumn {
  const plain = { name, expression: (quoted: string) => quoted, repetition: 'OPTIONAL' }
  const optional = (element: Partial<SchemaElement>): SchemaElement[] => [
    { name, repetition_type: 'OPTIONAL', ...element },
  ]
  const text = { ...plain, schema: optional(utf8), expression: (quoted: string) => `${quoted}::text`, convert: same }
  switch (type) {
    case 'numeric':
      if (asText.has(name)) return text
      return { ...plain, schema: optional(decimal), convert: (value) => units(name, value) }
    case '_numeric': {
      const element = asText.has(name) ? utf8 : decimal
      const one = asText.has(name) ? same : (value: string) => units(name, value)
      return {
        ...plain,
        schema: [
          { name, repetition_type: 'OPTIONAL', converted_type: 'LIST', num_children: 1 },
          { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
          { name: 'element', repetition_type: 'OPTIONAL', ...element },
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
      return { ...plain, schema: optional({ type: 'BOOLEAN' }), convert: (value) => value === 't' }
    default:
      return text
  }
}

const utf8 = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const
const decimal = {
  type: 'FIXED_LEN_BYTE_ARRAY',
  type_length: 16,
  converted_type: 'DECIMAL',
  precision,
  scale,
} as const

const same = (text: string): string => text

/** `{1.0,2}` as its elements; decimals need no quotes. */
function elements(text: string): string[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',')
}

/** A decimal in units of its last digit. */
function units(column: string, text: string): bigint {
  const match = /^(-?\d+)(?:\.(\d*?)0*)?$/.exec(text)
  const fraction = match?.[2] ?? ''
  if (match === null || fraction.length > scale) throw new UnfitDecimal(column, text)
  const value = BigInt(`${match[1] ?? ''}${fraction.padEnd(scale, '0')}`)
  if (value >= maxUnits || value <= -maxUnits) throw new UnfitDecimal(column, text)
  return value
}

/** Rows by column, as the writer takes them. */
export function columnsOf(
  columns: readonly ParquetColumn[],
  rows: readonly QueryRow[],
): { name: string; data: unknown[] }[] {
  return columns.map(({ name, convert }, i) => ({
    name,
    data: rows.map((row) => {
      const value = row[i] ?? null
      return value === null ? null : convert(value)
    }),
  }))
}
