import { createHash } from 'node:crypto'
import { decimalText } from './values.js'

/**
 * A digest of rows in their order: SHA-256 of a line for each, its values in the order of the columns, each ended by a tab. Decimals
 * are written without zeros at the end, times as microseconds since the epoch, lists in brackets, NULL as \\N, and texts as they
 * are, or as JSON where they hold quotes, backslashes or control characters. It does not depend on the types in a file.
 */
export class RowDigest {
  rows = 0
  readonly #hash = createHash('sha256')
  readonly #scales: readonly (number | undefined)[]
  #pending = ''

  /** @param columns those of the rows, with the digits after the point of decimals */
  constructor(columns: readonly { readonly scale?: number | undefined }[]) {
    this.#scales = columns.map(({ scale }) => scale)
  }

  add(values: readonly unknown[]): void {
    let line = ''
    for (const [i, value] of values.entries()) line += `${textOf(value, this.#scales[i])}\t`
    this.#pending += `${line}\n`
    this.rows++
    if (this.#pending.length > 65_536) this.#flush()
  }

  /** Ends it: nothing can be added afterwards. */
  hex(): string {
    this.#flush()
    return this.#hash.digest('hex')
  }

  #flush(): void {
    this.#hash.update(this.#pending)
    this.#pending = ''
  }
}

const special = /[\p{Cc}"\\]/u

/** No two values of a column have the same text, and none has a tab or a line end in it. */
function textOf(value: unknown, scale: number | undefined): string {
  if (value === null || value === undefined) return '\\N'
  if (typeof value === 'string') return special.test(value) ? JSON.stringify(value) : value
  if (typeof value === 'bigint' && scale !== undefined) return decimalText(value, scale)
  if (Array.isArray(value)) return `[${value.map((each) => textOf(each, scale)).join(',')}]`
  return `${value as bigint | number | boolean}`
}

export function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}
