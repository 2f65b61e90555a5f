import { dirname, join } from 'node:path'
import { type QueryRow, readInBatches } from '../../db/readOnlyQuery.js'
import {
  type ExportManifest,
  type ExportRequest,
  type ExportSource,
  isOfRanges,
  type Part,
  partsOf,
  readExportManifest,
  selectedRows,
  selectFingerprint,
  selectRows,
  writeExportManifest,
} from './request.js'
import { type ExportFormat, type FileFormat, fileFormat, type OpenFile, partitionValue } from './files.js'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import type { DatabasePool } from '../../db/pool.js'
import { belongsTo, readReadersIdentity } from '../../db/identity.js'
import { systemClock } from '../../runtime/clock.js'
import { makeFolder, systemDisk } from '../../runtime/disk.js'
import { isLockOf, lockFolder } from '../../runtime/folderLock.js'
import { type DecimalExtent, extentList, extentsIn, scaleFor, UnfitDecimal, withSpare } from '../parquet/columns.js'

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
  /** Days whose files hold more rows than the database has now, and which were left as they are. */
  readonly partsKept: readonly string[]
  /** Columns whose decimals had to be written as text. */
  readonly asText: readonly string[]
}
interface ExportOptions {
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: ExportProgress) => void
  readonly onNote?: (text: string) => void
}

const rowsPerBatch = 2_000

/**
 * Exports the selected rows to day=…/category=…/symbol=…/<name>.<format>. A source without instruments or time gets one
 * file. Each part is written beside its place, and moved when it is whole. The same call continues after an
 * interruption, and writes again the parts whose rows have changed. A day never loses rows: it keeps what an earlier call
 * with other times exported, and rows that have left the database since. Waits while another process exports into the
 * folder. Throws if the folder holds anything else, or on an abort.
 */
export async function runExport(
  database: DatabasePool,
  request: ExportRequest,
  options: ExportOptions,
): Promise<ExportResult> {
  const { signal, onNote: onWait } = options
  await makeFolder(request.folder)
  const unlock = await lockFolder(request.folder, 'exporting', {
    clock: systemClock,
    disk: systemDisk,
    ...(signal && { signal }),
    ...(onWait && { onWait }),
  })
  try {
    return await exportAlone(database, request, options)
  } finally {
    await unlock()
  }
}

async function exportAlone(
  database: DatabasePool,
  request: ExportRequest,
  options: ExportOptions,
): Promise<ExportResult> {
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

async function startManifest(database: DatabasePool, request: ExportRequest): Promise<ExportManifest> {
  const { folder, what, format, categories, symbolPatterns, source } = request
  const own = await readReadersIdentity(database)
  const wanted: ExportManifest = {
    database: own && { id: own.id, place: own.place },
    what,
    format,
    categories: categories?.toSorted() ?? null,
    symbols: symbolPatterns?.toSorted() ?? null,
    columns: source.columns.map(({ name, type }) => ({ name, type })),
    decimals: {},
    asText: [],
    parts: {},
  }
  const found = await readExportManifest(folder)
  await requireOwnFolders(request, found)
  if (found !== null && request.isOverwriting !== true) {
    const todo = 'export into another folder, or with --overwrite'
    const { database: theirs, decimals, asText, parts } = found
    if (own === null) throw new Error(`${folder} holds an export, and no recorder has named this database: ${todo}`)
    if (theirs === null || !belongsTo(theirs, own))
      throw new Error(`${folder} holds an export of another database: ${todo}`)
    const isSame = JSON.stringify(found) === JSON.stringify({ ...wanted, database: theirs, decimals, asText, parts })
    if (!isSame) throw new Error(`${folder} holds another export (${found.what}): ${todo}`)
    return found
  }
  for (const name of Object.keys(found?.parts ?? {})) await removePart(folder, name)
  await writeExportManifest(folder, wanted)
  return wanted
}

/** Throws if an export would replace what it did not write. Without a manifest, nothing in the folder is its own. */
async function requireOwnFolders(request: ExportRequest, found: ExportManifest | null): Promise<void> {
  const { folder } = request
  const names = await readdir(folder)
  const replaced = partsOf(request, {}).filter(({ name }) => found?.parts[name] === undefined)
  const folders = new Set(replaced.flatMap(({ name }) => foldersOf(name)))
  const isOther = (name: string) => (found === null ? !isLockOf('exporting', name) : folders.has(name))
  const other = names.find((name) => name !== 'export.json.new' && isOther(name))
  if (other !== undefined)
    throw new Error(`${folder} holds what no export of its export.json wrote (${other}): export into another folder`)
}

async function writeParts(
  database: DatabasePool,
  request: ExportRequest,
  manifest: ExportManifest,
  { signal, onProgress, onNote }: ExportOptions,
): Promise<ExportResult> {
  const { source, folder } = request
  const format = fileFormat(request.format, source.columns, manifest.decimals)
  const parts = partsOf(request, manifest.parts)
  const finished = { ...manifest.parts }
  let rows = 0
  let files = 0
  let partsSkipped = 0
  const partsKept: string[] = []
  for (const [partsDone, part] of parts.entries()) {
    onProgress?.({ partsDone, parts: parts.length, rows })
    // Rows that change after this are in the files, too, and make the next call write the part again.
    const fingerprint = await fingerprintOf(database, request, part)
    const found = finished[part.name]
    const hasFiles = await findFiles(folder, part.name)
    if (found !== undefined && isFinished(found, { ...part, fingerprint }, hasFiles)) {
      partsSkipped++
      continue
    }
    // Ranges become fewer when they join, and the rows of a query without days as it says. Other rows only leave.
    const mayShrink = isOfRanges(source) || source.timeColumn === undefined
    if (hasFiles && !mayShrink && Number(fingerprint.split(' ')[0]) < (found?.rows ?? 0)) {
      partsKept.push(part.name)
      continue
    }
    const before = rows
    const range = { from: new Date(part.from).toISOString(), to: new Date(part.to).toISOString() }
    // Notes the part first, because only what the manifest names may be replaced after a kill.
    finished[part.name] = { rows: 0, files: 0, ...finished[part.name], ...range, fingerprint: '' }
    await writeExportManifest(folder, { ...manifest, parts: finished })
    const written = await writePart(database, request, format, part, (count) => {
      onProgress?.({ partsDone, parts: parts.length, rows: before + count })
      signal?.throwIfAborted()
    })
    rows += written.rows
    files += written.files
    finished[part.name] = { ...range, ...written, fingerprint }
    await writeExportManifest(folder, { ...manifest, parts: finished })
  }
  onProgress?.({ partsDone: parts.length, parts: parts.length, rows })
  if (partsKept.length > 0) {
    const days = partsKept.length > 3 ? `${partsKept.slice(0, 3).join(', ')} …` : partsKept.join(', ')
    onNote?.(`files of ${days} stay: they hold rows that the database no longer has; --overwrite begins anew`)
  }
  return { rows, files, partsSkipped, partsKept, asText: manifest.asText }
}

async function fingerprintOf(database: DatabasePool, request: ExportRequest, part: Part): Promise<string> {
  if (request.source.timeColumn === undefined) return ''
  const { sql, parameters } = selectFingerprint(request, part)
  return readInBatches(database, sql, { batchRows: 1, parameters }, async (_, batches) => {
    for await (const [row] of batches) return row?.[0] ?? ''
    return ''
  })
}

function isFinished(
  found: ExportManifest['parts'][string],
  { from, to, fingerprint }: Part & { readonly fingerprint: string },
  hasFiles: boolean,
): boolean {
  const isSameSpan = Date.parse(found.from) === from && Date.parse(found.to) === to
  return isSameSpan && fingerprint !== '' && found.fingerprint === fingerprint && (found.files === 0 || hasFiles)
}

async function writePart(
  database: DatabasePool,
  request: ExportRequest,
  format: FileFormat,
  part: Part,
  onRows: (count: number) => void,
): Promise<{ rows: number; files: number }> {
  const { source, folder } = request
  const [finishedName, partialName, formerName] = foldersOf(part.name)
  const finished = join(folder, finishedName)
  const partial = join(folder, partialName)
  const former = join(folder, formerName)
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
  // Moves the former files aside, and removes them after the new ones are in place. A kill in between loses nothing.
  await rm(former, { recursive: true, force: true })
  if (existsSync(finished)) await rename(finished, former)
  if (writer.files === 0) await rm(partial, { recursive: true })
  else await rename(partial, finished)
  await rm(former, { recursive: true, force: true })
  return { rows, files: writer.files }
}

/** Returns true if a part has files. Moves the former files back, if a kill came before the new ones were in place. */
async function findFiles(folder: string, name: string): Promise<boolean> {
  const [finished, , former] = foldersOf(name)
  const path = join(folder, finished)
  if (!existsSync(path) && existsSync(join(folder, former))) await rename(join(folder, former), path)
  return existsSync(path)
}

/** Names the folders of a part: the finished one, the one that is being written, and the former one. */
function foldersOf(name: string): [finished: string, partial: string, former: string] {
  const finished = name === 'all' ? name : `day=${name}`
  return [finished, `.${finished}`, `.${finished}.former`]
}

async function removePart(folder: string, name: string): Promise<void> {
  for (const each of foldersOf(name)) await rm(join(folder, each), { recursive: true, force: true })
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
