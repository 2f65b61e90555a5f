import type { SchemaElement } from 'hyparquet'
import { fileWriter, ParquetWriter } from 'hyparquet-writer'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import { columnsOf, type ParquetColumn } from './columns.js'
import { unitsIn } from './decimals.js'
import type { Compression } from './zstd.js'

/** A row group is held in memory until it is written. */
const rowsPerGroup = 50_000
const charactersPerGroup = 8_000_000

export interface ParquetFile {
  /** Resolves when the rows are in memory or on the disk. Throws an `UnfitDecimal` on one that its column cannot hold. */
  write(rows: readonly QueryRow[]): Promise<void>
  close(): Promise<void>
}

/** Writes rows to a file in row groups of a bounded size, which readers can skip by the bounds of their columns. */
export function createParquetFile(
  path: string,
  columns: readonly ParquetColumn[],
  { compression, level }: { readonly compression: Compression; readonly level?: number },
): ParquetFile {
  const schema = [{ name: 'root', num_children: columns.length }, ...columns.flatMap((column) => column.schema)]
  const writer = new ParquetWriter({
    writer: fileWriter(path),
    // The writer is given decimals as they are stored; to make them itself takes it many times as long.
    schema: schema.map(withoutDecimals),
    codec: 'ZSTD',
    compressors: { ZSTD: (input) => compression.compress(input, level) },
    createdBy: 'market-recorder',
  })
  // By column, as the writer takes them: an array for each row would be most of the garbage there is.
  const noRows = (): unknown[][] => columns.map(() => [])
  let pending = noRows()
  let rowsPending = 0
  let characters = 0
  const addRow = (row: QueryRow) => {
    for (let i = 0; i < columns.length; i++) {
      const text = row[i] ?? null
      characters += text?.length ?? 0
      pending[i]?.push(text === null ? null : columns[i]?.convert(text))
    }
  }
  const flush = async () => {
    if (rowsPending === 0) return
    const group = { columnData: columnsOf(columns, pending), rowGroupSize: rowsPending }
    pending = noRows()
    rowsPending = 0
    characters = 0
    await writer.write(group)
  }
  return {
    async write(rows) {
      for (const row of rows) {
        try {
          addRow(row)
        } catch (error) {
          // The rows before it are whole, and can be written.
          for (const values of pending) values.length = rowsPending
          throw error
        }
        rowsPending++
        if (rowsPending >= rowsPerGroup || characters >= charactersPerGroup) await flush()
      }
    },
    async close() {
      await flush()
      // What the file says of itself is written at its end.
      writer.schema = schema
      nameDecimalBounds(writer)
      await writer.finish()
    },
  }
}

function withoutDecimals(element: SchemaElement): SchemaElement {
  if (element.converted_type !== 'DECIMAL') return element
  const { converted_type: _converted, logical_type: _logical, precision: _precision, scale: _scale, ...plain } = element
  return plain
}

/** Bounds of decimals, found as those of bytes, as numbers. Where some are negative the order of bytes is another one. */
function nameDecimalBounds(writer: ParquetWriter): void {
  for (const { columns } of writer.row_groups) {
    for (const { meta_data: found } of columns) {
      const { min_value: min, max_value: max } = found?.statistics ?? {}
      if (found?.type !== 'FIXED_LEN_BYTE_ARRAY' || !(min instanceof Uint8Array) || !(max instanceof Uint8Array))
        continue
      const [least, greatest] = [unitsIn(min), unitsIn(max)]
      const { min_value: _min, max_value: _max, ...rest } = found.statistics ?? {}
      found.statistics = greatest < 0n ? rest : { ...rest, min_value: least, max_value: greatest }
    }
  }
}
