import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import { fileWriter, ParquetWriter } from 'hyparquet-writer'
import { csvLine } from './csv.js'
import type { QueryColumn, QueryRow } from '../db/readOnlyQuery.js'
import { columnsOf, type ParquetColumn, parquetColumn } from './parquetTypes.js'

export const exportFormats = ['parquet', 'csv'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** A format of files, for the columns of one export. */
export interface FileFormat {
  /** The SQL that gives a column as the file needs it. */
  expression(column: QueryColumn, quoted: string): string
  open(path: string): OpenFile
}
export interface OpenFile {
  write(rows: readonly QueryRow[]): Promise<void>
  close(): Promise<void>
}

export function fileFormat(
  format: ExportFormat,
  columns: readonly QueryColumn[],
  asText: ReadonlySet<string>,
): FileFormat {
  return format === 'csv' ? csvFormat(columns) : parquetFormat(columns.map((column) => parquetColumn(column, asText)))
}

function csvFormat(columns: readonly QueryColumn[]): FileFormat {
  return {
    expression: ({ type }, quoted) =>
      type === 'timestamptz' ? `to_char(${quoted} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')` : quoted,
    open(path) {
      const stream = createWriteStream(path)
      const ended = finished(stream)
      // Told where the file is written to or closed; nobody may be waiting at the moment it happens.
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

/** A row group is held in memory until it is written. */
const rowsPerGroup = 50_000
const charactersPerGroup = 16_000_000

function parquetFormat(columns: readonly ParquetColumn[]): FileFormat {
  const byName = new Map(columns.map((column) => [column.name, column]))
  const schema = [{ name: 'root', num_children: columns.length }, ...columns.flatMap((column) => column.schema)]
  return {
    expression: ({ name }, quoted) => byName.get(name)?.expression(quoted) ?? quoted,
    open(path) {
      const writer = new ParquetWriter({ writer: fileWriter(path), schema, createdBy: 'market-recorder' })
      let pending: QueryRow[] = []
      let characters = 0
      const flush = async () => {
        if (pending.length === 0) return
        await writer.write({ columnData: columnsOf(columns, pending), rowGroupSize: pending.length })
        pending = []
        characters = 0
      }
      return {
        async write(rows) {
          for (const row of rows) {
            pending.push(row)
            for (const value of row) characters += value?.length ?? 0
            if (pending.length >= rowsPerGroup || characters >= charactersPerGroup) await flush()
          }
        },
        async close() {
          await flush()
          await writer.finish()
        },
      }
    },
  }
}
