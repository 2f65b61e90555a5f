import { dirname, join } from 'node:path'
import { type QueryRow, readInBatches } from '../../db/readOnlyQuery.js'
import {
  type ExportManifest,
  type ExportRequest,
  type ExportSource,
  type Part,
  partsOf,
  readExportManifest,
  selectedRows,
  selectFingerprint,
  selectRows,
  writeExportManifest,
} from './request.js'
import { type ExportFormat, type FileFormat, fileFormat, type OpenFile } from './files.js'
import { partitionValue } from './partitionValue.js'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import type { DatabasePool } from '../../db/pool.js'
import { makeFolder } from '../../runtime/disk.js'
import { extentList, extentsIn } from '../parquet/columns.js'
import { type DecimalExtent, scaleFor, UnfitDecimal, withSpare } from '../parquet/decimals.js'

export interface ExportProgress {
  readonly partsDone: number
  readonly parts: number
  readonly rows: number
}
interface ExportResult {
  readonly rows: number
  readonly files: number
  /** Number of days that an earlier call had finished. */
  readonly partsSkipped: number
  /** Columns whose decimals had to be written as text. */
  readonly asText: readonly string[]
}
export interface ExportOptions {
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: ExportProgress) => void
  readonly onNote?: (text: string) => void
}

const rowsPerBatch = 2_000

/**
 * Exports the selected rows to day=…/category=…/symbol=…/<name>.<format>. A source without instruments or time gets one
 * file. Each part is written beside its place, and moved when it is whole. The same call continues after an
 * interruption, and writes again the parts whose rows have changed. Throws if the folder holds another export, or on an
 * abort.
 */
export async function runExport(
  database: DatabasePool,
  request: ExportRequest,
  options: ExportOptions,
): Promise<ExportResult> {
  await makeFolder(request.folder)
  const found = await startManifest(database, request)
  // Without days, the only file is always written anew.
  const isNew = Object.keys(found.parts).length === 0 || request.source.timeColumn === undefined
  const manifest = isNew ? await withDecimals(database, request, found, options) : found
  try {
    return await writeParts(database, request, manifest, options)
  } catch (error) {
    if (!(error instanceof UnfitDecimal)) throw error
    // A column needs one type in all files of an export.
    throw new Error(`${error.message}: export into another folder, or all days anew with --overwrite`, { cause: error })
  }
}

/** Adds to a manifest the digits that the decimals of the selected rows need. */
async function withDecimals(
  database: DatabasePool,
  request: ExportRequest,
  manifest: ExportManifest,
  { onNote }: ExportOptions,
): Promise<ExportManifest> {
  const { source, folder, format } = request
  const list = extentList(source.columns)
  if (format === 'csv' || list === '') return manifest
  const { sql, parameters } = selectedRows(request, request)
  const options = { batchRows: 1, parameters }
  const extents = await readInBatches(database, `select ${list} from ${sql}`, options, async (_, batches) => {
    for await (const [row = []] of batches) return extentsIn(row, source.columns)
    return new Map<string, DecimalExtent>()
  })
  const asText = [...extents].filter(([, extent]) => scaleFor(extent) === 'text')
  for (const [name, { digits, scale }] of asText) {
    const holds = digits > 38 ? 'what is no decimal, or' : `${digits} digits before the point and ${scale} after it,`
    onNote?.(`${name} holds ${holds} more than a DECIMAL: the column is written as text`)
  }
  const room = source.timeColumn === undefined ? (extent: DecimalExtent) => extent : withSpare
  const decimals = Object.fromEntries([...extents].map(([name, extent]) => [name, room(extent)]))
  const measured = { ...manifest, decimals, asText: asText.map(([name]) => name) }
  await writeExportManifest(folder, measured)
  return measured
}

async function startManifest({ pool }: DatabasePool, request: ExportRequest): Promise<ExportManifest> {
  const { folder, what, format, categories, symbolPatterns, source } = request
  const { rows } = await pool.query<{ id: string }>('select id::text from recorder_page.database')
  const wanted: ExportManifest = {
    database: rows[0]?.id ?? null,
    what,
    format,
    categories: categories?.toSorted() ?? null,
    symbols: symbolPatterns?.toSorted() ?? null,
    columns: source.columns.map(({ name, type }) => ({ name, type })),
    decimals: {},
    asText: [],
    parts: {},
  }
  const found = request.isOverwriting === true ? null : await readExportManifest(folder)
  if (found !== null) {
    const isSame = JSON.stringify({ ...found, decimals: {}, asText: [], parts: {} }) === JSON.stringify(wanted)
    if (isSame) return found
    if (found.database !== wanted.database)
      throw new Error(`${folder} holds an export of another database: export into another folder, or with --overwrite`)
    throw new Error(`${folder} holds another export (${found.what}): export into another folder, or with --overwrite`)
  }
  const others = (await readdir(folder)).filter((name) => !isOurs(name))
  if (others.length > 0) throw new Error(`${folder} holds other files (${others[0]}): export into a folder of its own`)
  await removeParts(folder)
  await writeExportManifest(folder, wanted)
  return wanted
}

async function writeParts(
  database: DatabasePool,
  request: ExportRequest,
  manifest: ExportManifest,
  { signal, onProgress }: ExportOptions,
): Promise<ExportResult> {
  const { source, folder } = request
  const format = fileFormat(request.format, source.columns, manifest.decimals)
  const parts = partsOf(request)
  const finished = { ...manifest.parts }
  let rows = 0
  let files = 0
  let partsSkipped = 0
  for (const [partsDone, part] of parts.entries()) {
    onProgress?.({ partsDone, parts: parts.length, rows })
    // Rows that change after this are in the files, too, and make the next call write the part again.
    const fingerprint = await fingerprintOf(database, request, part)
    if (await isFinished(finished[part.name], { ...part, fingerprint }, join(folder, folderOf(part)))) {
      partsSkipped++
      continue
    }
    const before = rows
    const written = await writePart(database, request, format, part, (count) => {
      onProgress?.({ partsDone, parts: parts.length, rows: before + count })
      signal?.throwIfAborted()
    })
    rows += written.rows
    files += written.files
    const range = { from: new Date(part.from).toISOString(), to: new Date(part.to).toISOString() }
    finished[part.name] = { ...range, ...written, fingerprint }
    await writeExportManifest(folder, { ...manifest, parts: finished })
  }
  onProgress?.({ partsDone: parts.length, parts: parts.length, rows })
  return { rows, files, partsSkipped, asText: manifest.asText }
}

async function fingerprintOf(database: DatabasePool, request: ExportRequest, part: Part): Promise<string> {
  if (request.source.timeColumn === undefined) return ''
  const { sql, parameters } = selectFingerprint(request, part)
  return readInBatches(database, sql, { batchRows: 1, parameters }, async (_, batches) => {
    for await (const [row] of batches) return row?.[0] ?? ''
    return ''
  })
}

async function isFinished(
  found: ExportManifest['parts'][string] | undefined,
  { from, to, fingerprint }: Part & { readonly fingerprint: string },
  folder: string,
): Promise<boolean> {
  if (found === undefined || fingerprint === '') return false
  const isSameSpan = Date.parse(found.from) === from && Date.parse(found.to) === to
  if (!isSameSpan || found.fingerprint !== fingerprint) return false
  return found.files === 0 || (await stat(folder).catch(() => null)) !== null
}

async function writePart(
  database: DatabasePool,
  request: ExportRequest,
  format: FileFormat,
  part: Part,
  onRows: (count: number) => void,
): Promise<{ rows: number; files: number }> {
  const { source, folder } = request
  const partial = join(folder, `.${folderOf(part)}`)
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { recursive: true })
  const statement = selectRows(request, part, (column, quoted) => format.expression(column, quoted))
  const writer = new PartWriter(source, partial, request.format, format)
  let rows = 0
  try {
    const options = { batchRows: rowsPerBatch, parameters: statement.parameters }
    await readInBatches(database, statement.sql, options, async (_, batches) => {
      for await (const batch of batches) {
        await writer.write(batch)
        rows += batch.length
        onRows(rows)
      }
    })
    await writer.close()
  } catch (error) {
    await writer.close().catch(() => undefined)
    await rm(partial, { recursive: true, force: true })
    throw error
  }
  const finished = join(folder, folderOf(part))
  // Moves the former files aside, and removes them after the new ones are in place. A kill in between loses nothing.
  const former = `${partial}.former`
  await rm(former, { recursive: true, force: true })
  if ((await stat(finished).catch(() => null)) !== null) await rename(finished, former)
  if (writer.files === 0) await rm(partial, { recursive: true })
  else await rename(partial, finished)
  await rm(former, { recursive: true, force: true })
  return { rows, files: writer.files }
}

function folderOf({ name }: Part): string {
  return name === 'all' ? name : `day=${name}`
}

function isOurs(name: string): boolean {
  return /^\.?(all|day=\d{4}-\d{2}-\d{2})(\.former)?$|^export\.json(\.new)?$/.test(name)
}

async function removeParts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (isOurs(name) && !name.startsWith('export.json')) await rm(join(folder, name), { recursive: true, force: true })
  }
}

/** Writes the rows of a part to one file after another. The rows are ordered by instrument. */
class PartWriter {
  files = 0
  readonly #key: readonly [category: number, symbol: number] | undefined
  readonly #pathOf: (row: QueryRow) => string
  readonly #format: FileFormat
  #open: { readonly path: string; readonly file: OpenFile } | undefined

  constructor({ columns, name, timeColumn }: ExportSource, folder: string, suffix: ExportFormat, format: FileFormat) {
    const index = (column: string) => columns.findIndex((each) => each.name === column)
    this.#key = timeColumn === undefined ? undefined : [index('category'), index('symbol')]
    const value = (row: QueryRow, i: number) => partitionValue(row[i] ?? '')
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
      this.#open = { path, file: await this.#format.open(path) }
      this.files++
    }
    await this.#open.file.write(run)
  }

  #isSameInstrument(a: QueryRow | undefined, b: QueryRow | undefined): boolean {
    return this.#key === undefined || this.#key.every((column) => a?.[column] === b?.[column])
  }
}
