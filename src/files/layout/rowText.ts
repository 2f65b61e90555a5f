import { createHash } from 'node:crypto'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import {
  decimalText,
  elements,
  isDecimal,
  type ParquetColumn,
  parquetColumn,
  scaleFor,
  trimmedDecimal,
} from '../parquet/columns.js'

/** A column of a file. */
export interface StoredColumn {
  readonly name: string
  /** Type in the database: text, numeric, _numeric, timestamptz, … */
  readonly type: string
  /** Decimals only: largest number of digits before the point. With `scale`, it determines the type in the file. */
  readonly digits?: number | undefined
  /** Decimals only: largest number of digits after the point. */
  readonly scale?: number | undefined
}

type Column = Omit<StoredColumn, 'name'>

/** A row in the values of a file: decimals as 16 bytes, times in microseconds. */
export type FileRow = readonly unknown[]

/**
 * Makes the lines that the digest of rows is made of. A line has the values in the order of the columns, each with a
 * tab after it. Decimals lose trailing zeros, times are microseconds since the epoch, and NULL is \\N. Lists have
 * brackets. A text with quotes, backslashes or control characters is JSON. The types of a file do not matter. A
 * row of the server and its copy in a file have equal lines.
 */
export function linesOf(columns: readonly Column[]): {
  readonly ofServer: (row: QueryRow) => string
  readonly ofFile: (row: FileRow) => string
} {
  const server = columns.map(lineOfServer)
  const file = columns.map(lineOfFile)
  return {
    ofServer(row) {
      let line = ''
      for (let i = 0; i < server.length; i++) {
        const value = row[i]
        line += value === null || value === undefined ? '\\N\t' : `${server[i]?.(value)}\t`
      }
      return line
    },
    ofFile(row) {
      let line = ''
      for (let i = 0; i < file.length; i++) line += `${file[i]?.(row[i])}\t`
      return line
    },
  }
}

/** SHA-256 of lines in their order, each with a line end. */
export class RowDigest {
  rows = 0
  readonly #hash = createHash('sha256')
  #pending = ''

  add(line: string): void {
    this.#pending += `${line}\n`
    this.rows++
    if (this.#pending.length > 65_536) this.#flush()
  }

  /** Returns the digest. No line can be added afterwards. */
  sum(): { rows: number; sha256: string } {
    this.#flush()
    return { rows: this.rows, sha256: this.#hash.digest('hex') }
  }

  #flush(): void {
    this.#hash.update(this.#pending)
    this.#pending = ''
  }
}

const special = /[\p{Cc}"\\]/u

/** Quotes special text. No two values are then equal as text, and none has a tab or a line end. */
function quoted(text: string): string {
  return special.test(text) ? JSON.stringify(text) : text
}

function lineOfServer({ type }: Column) {
  switch (type) {
    case 'numeric':
      return trimmedDecimal
    case '_numeric':
      return (text: string) =>
        `[${elements(text)
          .map((each) => (each === 'NULL' ? '\\N' : trimmedDecimal(each)))
          .join(',')}]`
    case 'bool':
      return (text: string) => (text === 't' ? 'true' : 'false')
    case 'float4':
    case 'float8':
      return (text: string) => String(Number(text))
    case 'int2':
    case 'int4':
    case 'int8':
    case 'timestamptz':
      return (text: string) => text
    default:
      return quoted
  }
}

function lineOfFile({ type, scale }: Column) {
  // A decimal that needs more than 38 digits is text in the file.
  const ofText = isDecimal(type) ? trimmedDecimal : quoted
  const textOf = (value: unknown): string => {
    if (value === null || value === undefined) return '\\N'
    if (typeof value === 'string') return ofText(value)
    if (value instanceof Uint8Array) return decimalText(value, scale ?? 0)
    if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`
    return `${value as bigint | number | boolean}`
  }
  return textOf
}

/** Converts rows of a file to the text that the server would have sent, with times in microseconds. */
export function serverRow(columns: readonly Column[]): (row: FileRow) => (string | null)[] {
  const texts = columns.map(({ scale }) => {
    const textOf = (value: unknown): string => {
      if (value instanceof Uint8Array) return decimalText(value, scale ?? 0)
      if (Array.isArray(value)) return `{${value.map((each) => (each === null ? 'NULL' : textOf(each))).join(',')}}`
      if (typeof value === 'boolean') return value ? 't' : 'f'
      return String(value)
    }
    return textOf
  })
  return (row) => texts.map((text, i) => (row[i] === null || row[i] === undefined ? null : text(row[i])))
}

export function parquetColumns(columns: readonly StoredColumn[]): ParquetColumn[] {
  return columns.map(({ name, type, digits, scale }) =>
    digits === undefined || scale === undefined
      ? parquetColumn({ name, type })
      : parquetColumn({ name, type }, scaleFor({ digits, scale })),
  )
}

/** Formats microseconds since the epoch as ISO 8601, without loss. */
export function timeText(micros: bigint): string {
  const rest = ((micros % 1000n) + 1000n) % 1000n
  const iso = new Date(Number((micros - rest) / 1000n)).toISOString()
  return rest === 0n ? iso : `${iso.slice(0, -1)}${String(rest).padStart(3, '0')}Z`
}
