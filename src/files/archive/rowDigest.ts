import { createHash } from 'node:crypto'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import { elements } from '../parquet/columns.js'
import { decimalText, trimmedDecimal } from '../parquet/decimals.js'
import { shapeFor } from '../parquet/decimalShape.js'
import type { ManifestColumn } from './manifest.js'

/**
 * A digest of rows in their order: SHA-256 of a line for each, its values in the order of the columns, each ended by a tab. Decimals
 * are written without zeros at the end, times as microseconds since the epoch, lists in brackets, NULL as \\N, and texts as they
 * are, or as JSON where they hold quotes, backslashes or control characters. It does not depend on the types in a file: the rows
 * that the server gave and those that a file gives back have the same one.
 */
export class RowDigest {
  rows = 0
  readonly #hash = createHash('sha256')
  readonly #ofServer: readonly ((text: string) => string)[]
  readonly #ofFile: readonly ((value: unknown) => string)[]
  #pending = ''

  constructor(columns: readonly Pick<ManifestColumn, 'type' | 'digits' | 'scale'>[]) {
    this.#ofServer = columns.map(lineOfServer)
    this.#ofFile = columns.map(({ scale }) => lineOfFile(scale))
  }

  /** Rows as the server gave them. */
  addServerRows(rows: readonly QueryRow[]): void {
    for (const row of rows) {
      let line = ''
      for (let i = 0; i < this.#ofServer.length; i++) {
        const value = row[i]
        line += value === null || value === undefined ? '\\N\t' : `${this.#ofServer[i]?.(value)}\t`
      }
      this.#add(line)
    }
  }

  /** Rows as a file gave them. */
  addFileRows(rows: readonly (readonly unknown[])[]): void {
    for (const row of rows) {
      let line = ''
      for (let i = 0; i < this.#ofFile.length; i++) line += `${this.#ofFile[i]?.(row[i])}\t`
      this.#add(line)
    }
  }

  /** Ends it: nothing can be added afterwards. */
  hex(): string {
    this.#flush()
    return this.#hash.digest('hex')
  }

  #add(line: string): void {
    this.#pending += `${line}\n`
    this.rows++
    if (this.#pending.length > 65_536) this.#flush()
  }

  #flush(): void {
    this.#hash.update(this.#pending)
    this.#pending = ''
  }
}

const special = /[\p{Cc}"\\]/u

/** No two values of a column have the same text, and none has a tab or a line end in it. */
function quoted(text: string): string {
  return special.test(text) ? JSON.stringify(text) : text
}

function lineOfServer({ type, digits, scale }: Pick<ManifestColumn, 'type' | 'digits' | 'scale'>) {
  const isText = digits !== undefined && scale !== undefined && shapeFor({ digits, scale }) === 'text'
  const decimal = isText ? quoted : trimmedDecimal
  switch (type) {
    case 'numeric':
      return decimal
    case '_numeric':
      return (text: string) =>
        `[${elements(text)
          .map((each) => (each === 'NULL' ? '\\N' : decimal(each)))
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

function lineOfFile(scale: number | undefined) {
  const textOf = (value: unknown): string => {
    if (value === null || value === undefined) return '\\N'
    if (typeof value === 'string') return quoted(value)
    if (value instanceof Uint8Array) return decimalText(value, scale ?? 0)
    if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`
    return `${value as bigint | number | boolean}`
  }
  return textOf
}
