import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import type { DatabasePool } from '../db/pool.js'
import { readInBatches } from '../db/readOnlyQuery.js'
import { type ExportFormat, type FileFormat, fileFormat } from './files.js'
import { type Manifest, readManifest, writeManifest } from './manifest.js'
import { PartWriter } from './partWriter.js'
import { UnfitDecimal } from '../parquet/decimals.js'
import { type DecimalExtent, shapeFor, widen } from '../parquet/decimalShape.js'
import { extentList, extentsIn } from '../parquet/extents.js'
import { type ExportSource, type Selection, selectedRows, selectRows } from './source.js'

export interface ExportRequest {
  /** The relation or query, as the user gave it. */
  readonly what: string
  readonly source: ExportSource
  readonly folder: string
  readonly format: ExportFormat
  /** Half-open; only for sources that are cut into days. */
  readonly from?: TimeMs
  readonly to?: TimeMs
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
  /** From what the symbols were chosen; a later call with the same goes on, though it may know more symbols. */
  readonly symbolPatterns?: readonly string[]
  /** Begin anew in a folder that holds something else. */
  readonly isOverwriting?: boolean
}

export interface ExportProgress {
  readonly partsDone: number
  readonly parts: number
  readonly rows: number
}
export interface ExportResult {
  readonly rows: number
  readonly files: number
  /** Days that were finished before. */
  readonly partsSkipped: number
  /** Columns whose decimals had to be written as text. */
  readonly asText: readonly string[]
}
export interface ExportOptions {
  readonly now: () => TimeMs
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: ExportProgress) => void
  readonly onNote?: (text: string) => void
}

/** A day that was exported sooner after its end may have been incomplete still. */
const settleMs = hourMs
const rowsPerBatch = 2_000

interface Part {
  /** A day, or `all`. */
  readonly name: string
  readonly from: TimeMs
  readonly to: TimeMs
}

/**
 * Writes the selected rows to files: day=…/category=…/symbol=…/<name>.<format>, or one file where the source has no instruments
 * or no time. A part is written beside its place and moved there when it is whole; parts that are there already are left as they
 * are, so that the same call goes on after an interruption. Throws when the folder holds another export, or on an abort.
 */
export async function runExport(
  database: DatabasePool,
  request: ExportRequest,
  options: ExportOptions,
): Promise<ExportResult> {
  await mkdir(request.folder, { recursive: true })
  let manifest = await startManifest(request)
  if (Object.keys(manifest.parts).length === 0) manifest = await withDecimals(database, request, manifest, options)
  for (;;) {
    try {
      return await writeParts(database, request, manifest, options)
    } catch (error) {
      if (!(error instanceof UnfitDecimal)) throw error
      // A column has one type in all files of an export, so those that were written with the other one are written again.
      options.onNote?.(`${error.message}: all days are written again, with a wider type`)
      await removeParts(request.folder)
      manifest = await withDecimals(database, request, { ...manifest, parts: {} }, options)
    }
  }
}

/** With room for what the selected rows hold, and for what was known before. */
async function withDecimals(
  database: DatabasePool,
  request: ExportRequest,
  manifest: Manifest,
  { now, onNote }: ExportOptions,
): Promise<Manifest> {
  const { source, folder, format, from = 0, to = now() } = request
  const list = extentList(source.columns)
  if (format === 'csv' || list === '') return manifest
  const { sql, parameters } = selectedRows(source, selectionOf(request, { from, to }))
  const options = { batchRows: 1, parameters }
  const extents = await readInBatches(database, `select ${list} from ${sql}`, options, async (_, batches) => {
    for await (const [row = []] of batches) return extentsIn(row, source.columns)
    return new Map<string, DecimalExtent>()
  })
  const decimals = Object.fromEntries(
    [...extents].map(([name, extent]) => [name, widen(extent, manifest.decimals[name] ?? extent)]),
  )
  const asText = Object.keys(decimals).filter((name) => shapeFor(decimals[name] ?? noDigits) === 'text')
  for (const name of asText.filter((one) => !manifest.asText.includes(one))) {
    const { digits, scale } = decimals[name] ?? noDigits
    const holds = digits > 38 ? 'what is no decimal, or' : `${digits} digits before the point and ${scale} after it,`
    onNote?.(`${name} holds ${holds} more than a DECIMAL: the column is written as text`)
  }
  const known = { ...manifest, decimals, asText }
  await writeManifest(folder, known)
  return known
}

const noDigits: DecimalExtent = { digits: 0, scale: 0 }

async function startManifest(request: ExportRequest): Promise<Manifest> {
  const { folder, what, format, categories, symbolPatterns, source } = request
  const wanted: Manifest = {
    what,
    format,
    categories: categories?.toSorted() ?? null,
    symbols: symbolPatterns?.toSorted() ?? null,
    columns: source.columns.map(({ name, type }) => ({ name, type })),
    decimals: {},
    asText: [],
    parts: {},
  }
  const found = request.isOverwriting === true ? null : await readManifest(folder)
  if (found !== null) {
    const isSame = JSON.stringify({ ...found, decimals: {}, asText: [], parts: {} }) === JSON.stringify(wanted)
    if (isSame) return found
    throw new Error(`${folder} holds another export (${found.what}): export into another folder, or with --overwrite`)
  }
  const others = (await readdir(folder)).filter((name) => !isOurs(name))
  if (others.length > 0) throw new Error(`${folder} holds other files (${others[0]}): export into a folder of its own`)
  await removeParts(folder)
  await writeManifest(folder, wanted)
  return wanted
}

async function writeParts(
  database: DatabasePool,
  request: ExportRequest,
  manifest: Manifest,
  { now, signal, onProgress }: ExportOptions,
): Promise<ExportResult> {
  const { source, folder } = request
  const format = await fileFormat(request.format, source.columns, manifest.decimals)
  const parts = partsOf(request, now())
  const finished = { ...manifest.parts }
  let rows = 0
  let files = 0
  let partsSkipped = 0
  for (const [partsDone, part] of parts.entries()) {
    onProgress?.({ partsDone, parts: parts.length, rows })
    if (await isFinished(finished[part.name], part, join(folder, folderOf(part)))) {
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
    finished[part.name] = { ...range, ...written, writtenAt: new Date(now()).toISOString() }
    await writeManifest(folder, { ...manifest, parts: finished })
  }
  onProgress?.({ partsDone: parts.length, parts: parts.length, rows })
  return { rows, files, partsSkipped, asText: manifest.asText }
}

function partsOf({ source, from, to }: ExportRequest, now: TimeMs): Part[] {
  if (source.timeColumn === undefined) return [{ name: 'all', from: 0, to: now }]
  if (from === undefined || to === undefined)
    throw new Error('rows with a time are exported from one moment to another')
  const parts: Part[] = []
  for (let day = Math.floor(from / dayMs) * dayMs; day < to; day += dayMs) {
    const name = new Date(day).toISOString().slice(0, 10)
    parts.push({ name, from: Math.max(from, day), to: Math.min(to, day + dayMs) })
  }
  return parts
}

async function isFinished(found: Manifest['parts'][string] | undefined, part: Part, folder: string): Promise<boolean> {
  if (found === undefined) return false
  const isSame = Date.parse(found.from) === part.from && Date.parse(found.to) === part.to
  const isSettled = Date.parse(found.writtenAt) >= part.to + settleMs
  if (!isSame || !isSettled) return false
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
  const selection = selectionOf(request, part)
  const statement = selectRows(source, (column, quoted) => format.expression(column, quoted), selection)
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
  const place = join(folder, folderOf(part))
  await rm(place, { recursive: true, force: true })
  if (writer.files === 0) await rm(partial, { recursive: true })
  else await rename(partial, place)
  return { rows, files: writer.files }
}

function selectionOf(
  { categories, symbols }: ExportRequest,
  { from, to }: { readonly from: TimeMs; readonly to: TimeMs },
): Selection {
  return {
    from: new Date(from),
    to: new Date(to),
    ...(categories && { categories }),
    ...(symbols && { symbols }),
  }
}

function folderOf({ name }: Part): string {
  return name === 'all' ? name : `day=${name}`
}

function isOurs(name: string): boolean {
  return /^\.?(all|day=\d{4}-\d{2}-\d{2})$|^export\.json(\.new)?$/.test(name)
}

async function removeParts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (isOurs(name) && !name.startsWith('export.json')) await rm(join(folder, name), { recursive: true, force: true })
  }
}
