import {
  asyncBufferFromFile,
  type Encoding,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
  type RowGroup,
  type SchemaElement,
  type SchemaTree,
} from 'hyparquet'
import { fileWriter, ParquetWriter } from 'hyparquet-writer'
import { Zstd } from '@hpcc-js/wasm-zstd'
import { sum } from '../../market/values.js'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import { type ParquetColumn, unitsIn } from './columns.js'

/** Largest size of a row group. It is held in memory until it is written. */
const rowsPerGroup = 50_000
const charactersPerGroup = 8_000_000

interface ParquetFile {
  /** Resolves when rows are in memory or on disk. Throws an `UnfitDecimal` if a column cannot hold a value. */
  write(rows: readonly QueryRow[]): Promise<void>
  /** @param footer texts that the file keeps beside its rows */
  close(footer?: Readonly<Record<string, string>>): Promise<void>
}

/**
 * Writes rows to a file in row groups of limited size. Readers skip groups by the bounds of their columns.
 *
 * @param level Zstandard level, from 1 (fast) up
 */
export async function createParquetFile(
  path: string,
  columns: readonly ParquetColumn[],
  level = 3,
): Promise<ParquetFile> {
  const zstd = await loadZstd()
  const schema = [{ name: 'root', num_children: columns.length }, ...columns.flatMap((column) => column.schema)]
  const writer = new ParquetWriter({
    writer: fileWriter(path),
    // Decimals are passed to the writer as they are stored. Converting them in the writer takes many times as long.
    schema: schema.map(withoutDecimals),
    codec: 'ZSTD',
    compressors: { ZSTD: (input) => zstd.compress(input, level) },
    createdBy: 'market-recorder',
  })
  // Values are collected by column, as the writer takes them. An array per row would be most of the garbage.
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
          // Rows before the failing one are whole and can be written.
          for (const values of pending) values.length = rowsPending
          throw error
        }
        rowsPending++
        if (rowsPending >= rowsPerGroup || characters >= charactersPerGroup) await flush()
      }
    },
    async close(footer = {}) {
      await flush()
      writer.kvMetadata = Object.entries(footer).map(([key, value]) => ({ key, value }))
      // The schema is written at the end of the file, so the decimal types are restored only here.
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

/** Converts bounds of decimals to numbers. Leaves them out if one is negative, which sorts differently as bytes. */
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

/** A Parquet file, read in stored values: decimals as 16 bytes, times in microseconds. */
interface ParquetRows {
  readonly columns: readonly Pick<ParquetColumn, 'name' | 'schema'>[]
  readonly footer: Readonly<Record<string, string>>
  /** Yields the rows of one row group at a time. */
  batches(): AsyncIterable<readonly (readonly unknown[])[]>
}

/** Opens a Parquet file. Throws on another or a cut file, or on one that unfolds to more than is ever written. */
export async function openParquet(path: string): Promise<ParquetRows> {
  const zstd = await loadZstd()
  const file = await asyncBufferFromFile(path)
  const written = await parquetMetadataAsync(file)
  for (const group of written.row_groups) requireBounded(group)
  const metadata: FileMetaData = { ...written, schema: written.schema.map(withoutMeaning) }
  return {
    columns: parquetSchema(written).children.map((tree) => ({ name: tree.element.name, schema: elementsOf(tree) })),
    footer: Object.fromEntries((written.key_value_metadata ?? []).map(({ key, value = '' }) => [key, value])),
    async *batches() {
      let start = 0
      for (const group of written.row_groups) {
        const end = start + Number(group.num_rows)
        let rows: readonly (readonly unknown[])[] = []
        await parquetRead({
          file,
          metadata,
          rowStart: start,
          rowEnd: end,
          compressors: { ZSTD: (input, bytes) => unfold(zstd, input, bytes) },
          onComplete: (found) => {
            rows = found
          },
        })
        if (textLength(rows) > charactersPerGroup * 8) throw new Error(unfoldsTooFar)
        yield rows
        start = end
      }
    },
  }
}

function elementsOf({ element, children }: SchemaTree): SchemaElement[] {
  return [element, ...children.flatMap(elementsOf)]
}

/** Removes the logical type, because the reader would turn decimals into floats and times into dates. */
function withoutMeaning(element: SchemaElement): SchemaElement {
  const { converted_type: type, ...rest } = element
  if (type !== 'DECIMAL' && type !== 'TIMESTAMP_MICROS') return element
  const { logical_type: _logical, ...plain } = rest
  return plain
}

/** Limits of a row group that was written here. Each decimal takes 16 bytes, and had at least 2 characters of text. */
const maxValues = charactersPerGroup
const maxBytes = 20 * maxValues

/** Throws if a row group would unfold beyond the limits. A file of some kilobytes can unfold to gigabytes. */
function requireBounded({ num_rows: rows, columns }: RowGroup): void {
  const chunks = columns.map(({ meta_data: found }) => found)
  const isUsual = chunks.every(
    (found) =>
      found !== undefined &&
      (found.codec === 'ZSTD' || found.codec === 'UNCOMPRESSED') &&
      Number(found.num_values) <= maxValues,
  )
  const bytes = sum(chunks.map((found) => Number(found?.total_uncompressed_size ?? 0)))
  if (!isUsual || Number(rows) > rowsPerGroup || bytes > maxBytes) {
    throw new Error(unfoldsTooFar)
  }
}

function textLength(value: unknown): number {
  if (typeof value === 'string') return value.length
  return Array.isArray(value) ? value.reduce<number>((sum, each) => sum + textLength(each), 0) : 0
}

const unfoldsTooFar = 'it unfolds to more than is ever written'

/** Largest size of a page, 256 MiB. Pages usually have about 1 MiB, but a single row may be longer. */
const maxPageBytes = 1 << 28

let loading: Promise<Zstd> | undefined

/** Loads Zstandard compression. Node itself has it only from version 22 on. */
async function loadZstd(): Promise<Zstd> {
  loading ??= Zstd.load().then((zstd) => {
    copyAtOnce(zstd)
    return zstd
  })
  return loading
}

/** Decompresses a page. Throws unless it unfolds to exactly `bytes` bytes, and `bytes` is within the limit. */
function unfold(zstd: Zstd, page: Uint8Array, bytes: number): Uint8Array {
  if (bytes > maxPageBytes || contentBytes(page) !== bytes) throw new Error(unfoldsTooFar)
  return zstd.decompress(page)
}

/** Returns the content length in bytes that a frame declares; null if none. The library allocates that much. */
function contentBytes(frame: Uint8Array): number | null {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  if (view.getUint32(0, true) !== 0xfd2fb528) return null
  const descriptor = view.getUint8(4)
  const isSingle = (descriptor & 0x20) !== 0
  const offset = 5 + (isSingle ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] ?? 0)
  switch (descriptor >> 6) {
    case 0:
      return isSingle ? view.getUint8(offset) : null
    case 1:
      return view.getUint16(offset, true) + 256
    case 2:
      return view.getUint32(offset, true)
    default:
      return Number(view.getBigUint64(offset, true))
  }
}

/** Access to the library's memory. */
interface Heap {
  heapView(block: unknown): Uint8Array
  heapToUint8Array(block: unknown): Uint8Array
}

/**
 * Makes the library copy results at once. It copies them number by number through a list, which takes longer than
 * compressing. Does nothing if the library has changed inside.
 */
function copyAtOnce(zstd: Zstd): void {
  const heap = (zstd as unknown as { readonly ['_mainModule']?: Partial<Heap> })['_mainModule']
  if (typeof heap?.heapView !== 'function' || typeof heap.heapToUint8Array !== 'function') return
  heap.heapToUint8Array = (block) => (heap as Heap).heapView(block).slice()
}

/** Returns columns in the form that the writer takes. `values` were made by `convert`. */
function columnsOf(
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

/** Returns true if 16-byte values compress better than places in a dictionary, because few of them are equal. */
function hardlyRepeats(data: readonly unknown[]): boolean {
  const maxDifferent = data.length / 8
  // Equal values are the same array, as long as the cache of decimals holds them.
  const found = new Set<unknown>()
  for (const value of data) {
    if (found.add(value).size > maxDifferent) return true
  }
  return false
}
