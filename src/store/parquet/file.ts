import { fileWriter, ParquetWriter } from 'hyparquet-writer'
import type { QueryRow } from '../db/readOnlyQuery.js'
import { columnsOf, convertRow, type ParquetColumn } from './columns.js'
import type { Compression } from './zstd.js'

/** A row group is held in memory until it is written. */
const rowsPerGroup = 50_000
const charactersPerGroup = 8_000_000

export interface ParquetFile {
  /** Resolves when the rows are in memory or on the disk. Throws an `UnfitDecimal` on one that its column cannot hold. */
  write(rows: readonly QueryRow[]): Promise<void>
  close(): Promise<void>
}

export interface ParquetFileOptions {
  readonly compression: Compression
  /** Told of each row in the values of the file, in their order. */
  readonly onRow?: (values: readonly unknown[]) => void
}

/** Writes rows to a file in row groups of a bounded size, which readers can skip by the bounds of their columns. */
export function createParquetFile(
  path: string,
  columns: readonly ParquetColumn[],
  { compression, onRow }: ParquetFileOptions,
): ParquetFile {
  const writer = new ParquetWriter({
    writer: fileWriter(path),
    schema: [{ name: 'root', num_children: columns.length }, ...columns.flatMap((column) => column.schema)],
    codec: 'ZSTD',
    compressors: { ZSTD: (input) => compression.compress(input) },
    createdBy: 'market-recorder',
  })
  let pending: unknown[][] = []
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
        const values = convertRow(columns, row)
        onRow?.(values)
        pending.push(values)
        for (const value of row) characters += value?.length ?? 0
        if (pending.length >= rowsPerGroup || characters >= charactersPerGroup) await flush()
      }
    },
    async close() {
      await flush()
      await writer.finish()
    },
  }
}
