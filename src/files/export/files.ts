import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import { type DecimalExtent, type ParquetColumn, parquetColumn, scaleFor } from '../parquet/columns.js'
import { createParquetFile } from '../parquet/file.js'
import { csvLine } from '../../runtime/text.js'

export const exportFormats = ['parquet', 'csv'] as const

export type ExportFormat = (typeof exportFormats)[number]

/** A file format, for the columns of one export. */
export interface FileFormat {
  /** Returns SQL that gives a column in the form that the file needs. */
  expression(column: QueryColumn, quoted: string): string
  open(path: string): Promise<OpenFile> | OpenFile
}

export interface OpenFile {
  write(rows: readonly QueryRow[]): Promise<void>
  close(): Promise<void>
}

export function fileFormat(
  format: ExportFormat,
  columns: readonly QueryColumn[],
  decimals: Readonly<Record<string, DecimalExtent>>,
): FileFormat {
  if (format === 'csv') return csvFormat(columns)
  return parquetFormat(
    columns.map((column) => {
      const extent = decimals[column.name]
      return parquetColumn(column, extent && scaleFor(extent))
    }),
  )
}

function csvFormat(columns: readonly QueryColumn[]): FileFormat {
  return {
    expression({ type }, quoted) {
      if (type === 'timestamptz') return `to_char(${quoted} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
      return type === 'bool' ? `${quoted}::text` : quoted
    },
    open(path) {
      const stream = createWriteStream(path)
      const ended = finished(stream)
      // Callers of write() and close() receive the error. This handler prevents an unhandled rejection before that.
      ended.catch(() => undefined)
      const write = async (lines: string) => {
        if (!stream.write(lines)) await Promise.race([once(stream, 'drain'), ended])
      }
      let head = `${csvLine(columns.map(({ name }) => name))}\n`
      return {
        async write(rows) {
          await write(head + rows.map((row) => `${csvLine(row)}\n`).join(''))
          head = ''
        },
        async close() {
          if (head !== '') await write(head)
          stream.end()
          await ended
        },
      }
    },
  }
}

function parquetFormat(columns: readonly ParquetColumn[]): FileFormat {
  const byName = new Map(columns.map((column) => [column.name, column]))
  return {
    expression: ({ name }, quoted) => byName.get(name)?.expression(quoted) ?? quoted,
    open: (path) => createParquetFile(path, columns),
  }
}

/** Bytes of the longest value. File systems allow 255 for a name, of which the column's takes a part. */
const maxBytes = 200
/** A digest of so many hexadecimal digits keeps a cut value unique. */
const digestDigits = 32
/** Values that readers of such folders take for null, in any case. */
const readAsNull = /^(?:null|__hive_default_partition__)$/i

/**
 * Spells a text as the value of a partition in the name of a folder, such as `symbol=BRK%2FB`. Readers decode it as in
 * URLs. A value that is too long is cut between two characters and ends with a digest after `~`, which no other value
 * holds.
 */
export function partitionValue(text: string): string {
  const encoded = encodeText(text)
  if (readAsNull.test(text)) return hex(text.slice(0, 1)) + encoded.slice(1)
  if (encoded.length <= maxBytes) return encoded
  const digest = createHash('sha256').update(text).digest('hex').slice(0, digestDigits)
  let kept = ''
  for (const character of text) {
    const next = kept + encodeText(character)
    if (next.length > maxBytes - digestDigits - 1) break
    kept = next
  }
  return `${kept}~${digest}`
}

/** Leaves letters, digits, `-`, `_` and `.` as they are. Shells and patterns of file names give a meaning to others. */
function encodeText(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/[!'()*~]/g, hex)
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
}
