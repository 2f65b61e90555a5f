import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import type { ExportFormat, FileFormat, OpenFile } from './files.js'
import type { ExportSource } from './source.js'

/** Writes the rows of a part to one file after the other: they come instrument by instrument. */
export class PartWriter {
  files = 0
  readonly #key: readonly [category: number, symbol: number] | undefined
  readonly #pathOf: (row: QueryRow) => string
  readonly #format: FileFormat
  #open: { readonly path: string; readonly file: OpenFile } | undefined

  constructor({ columns, name, timeColumn }: ExportSource, folder: string, suffix: ExportFormat, format: FileFormat) {
    const index = (column: string) => columns.findIndex((each) => each.name === column)
    this.#key = timeColumn === undefined ? undefined : [index('category'), index('symbol')]
    const value = (row: QueryRow, i: number) => pathPart(row[i] ?? '')
    this.#format = format
    this.#pathOf = (row) =>
      this.#key === undefined
        ? join(folder, `${name}.${suffix}`)
        : join(
            folder,
            `category=${value(row, this.#key[0])}`,
            `symbol=${value(row, this.#key[1])}`,
            `${name}.${suffix}`,
          )
  }

  async write(rows: readonly QueryRow[]): Promise<void> {
    let start = 0
    while (start < rows.length) {
      let end = start + 1
      while (end < rows.length && this.#isSameInstrument(rows[start], rows[end])) end++
      await this.#writeRun(rows.slice(start, end))
      start = end
    }
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.file.close()
  }

  async #writeRun(run: readonly QueryRow[]): Promise<void> {
    const path = this.#pathOf(run[0] ?? [])
    if (this.#open?.path !== path) {
      await this.close()
      await mkdir(dirname(path), { recursive: true })
      this.#open = { path, file: this.#format.open(path) }
      this.files++
    }
    await this.#open.file.write(run)
  }

  #isSameInstrument(a: QueryRow | undefined, b: QueryRow | undefined): boolean {
    return this.#key === undefined || this.#key.every((column) => a?.[column] === b?.[column])
  }
}

/** File systems take names of 255 bytes: a longer one is cut, and told from others by a digest. */
const longestPart = 200

function pathPart(text: string): string {
  const encoded = encodeURIComponent(text)
  if (encoded.length <= longestPart) return encoded
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 32)
  return `${encoded.slice(0, longestPart - 40).replace(/%.?$/, '')}~${digest}`
}
