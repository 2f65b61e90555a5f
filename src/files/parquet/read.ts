import {
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  type SchemaElement,
} from 'hyparquet'
import type { Compression } from './zstd.js'

/** A file of rows, in the values that are stored: decimals as their 16 bytes, times in microseconds. */
export interface ParquetRows {
  readonly rows: number
  readonly columns: readonly string[]
  /** Row group by row group. */
  batches(): AsyncIterable<readonly (readonly unknown[])[]>
}

/** Throws on a file that is none, or is cut off. */
export async function openParquet(path: string, compression: Compression): Promise<ParquetRows> {
  const file = await asyncBufferFromFile(path)
  const written = await parquetMetadataAsync(file)
  const metadata: FileMetaData = { ...written, schema: written.schema.map(withoutMeaning) }
  const top = topLevel(written.schema)
  return {
    rows: Number(written.num_rows),
    columns: top.map(({ name }) => name),
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
          compressors: { ZSTD: (input) => compression.decompress(input) },
          onComplete: (found) => {
            rows = found
          },
        })
        yield rows
        start = end
      }
    },
  }
}

/** The reader makes floats of decimals and dates of times: it is shown what they are stored as. */
function withoutMeaning(element: SchemaElement): SchemaElement {
  const { converted_type: type, ...rest } = element
  if (type !== 'DECIMAL' && type !== 'TIMESTAMP_MICROS') return element
  const { logical_type: _logical, ...plain } = rest
  return plain
}

function topLevel([root, ...elements]: readonly SchemaElement[]): SchemaElement[] {
  const found: SchemaElement[] = []
  let next = 0
  for (let i = 0; i < (root?.num_children ?? 0); i++) {
    const element = elements[next]
    if (element === undefined) break
    found.push(element)
    next = afterElement(elements, next)
  }
  return found
}

function afterElement(elements: readonly SchemaElement[], place: number): number {
  let next = place + 1
  for (let i = 0; i < (elements[place]?.num_children ?? 0); i++) next = afterElement(elements, next)
  return next
}
