import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type * as duckdb from '@duckdb/node-api'
import { onAbort } from '../../runtime/abort.js'
import { systemClock } from '../../runtime/clock.js'
import { dayMs } from '../../market/values.js'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import type { RecorderDatabase } from '../../db/database.js'
import {
  archivedTable,
  type Day,
  dayEnd,
  dayOf,
  type DayRange,
  daysBetween,
  firstTime,
  isInRange,
  lastTime,
} from './tables.js'
import { listNewest, type ManifestColumn, readManifest } from './manifest.js'
import { type Snapshot, withSnapshot } from './rows.js'
import { stageDay } from './stageDay.js'
import { type MarketTable, marketTables } from '../../market/stream.js'
import type { ArchiveTarget } from './target.js'
import { proofViews, viewsOver } from './duckViews.js'

/** For a table that is archived whole, the newest day before `to` counts. */
export interface ArchiveQuery extends DayRange {
  readonly sql: string
  /** Source of rows for days that are not archived. Without it, only the archive is queried. */
  readonly database?: RecorderDatabase
  /** Local folder for files with rows of the database. They are needed only while the query runs. */
  readonly folder: string
  readonly now: number
  readonly maxRows: number
  /** Categories whose rows are queried. Default: all. */
  readonly categories?: readonly string[] | undefined
  /** Ends the query at any point. The caller must cancel statements that the database is running. */
  readonly signal?: AbortSignal | undefined
}

export interface ArchiveQueryResult {
  readonly columns: readonly QueryColumn[]
  /** Exact decimals, and times in UTC; null is NULL. */
  readonly rows: readonly QueryRow[]
  readonly isTruncated: boolean
}

/**
 * Runs one query in DuckDB over the archive, and over the database for days that are not archived. Relations have the
 * same names, such as market.fills. Throws one line if DuckDB is missing, or on errors of SQL.
 */
export async function queryArchive(target: ArchiveTarget, query: ArchiveQuery): Promise<ArchiveQueryResult> {
  const { DuckDBInstance } = await loadDuck()
  // Looks up only tables that the query names, so that other tables cost nothing.
  const isNamed = (name: string) => new RegExp(`\\b${name}\\b`, 'i').test(query.sql)
  const wanted = marketTables.filter((name) => [name, ...(madeOf[name] ?? [])].some(isNamed))
  const files = new Map<MarketTable, string[]>()
  for (const name of wanted) files.set(name, await filesOf(target, name, query))
  const proof = await proofViews(target, query, isNamed)
  return askDuck(DuckDBInstance, [viewsOver(files), ...proof].join(';\n'), query)
}

async function askDuck(
  DuckDBInstance: typeof duckdb.DuckDBInstance,
  views: string,
  query: ArchiveQuery,
): Promise<ArchiveQueryResult> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2', memory_limit: '2GB' })
  const connection = await instance.connect()
  const release = interruptOnAbort(connection, query.signal)
  try {
    query.signal?.throwIfAborted()
    await connection.run(`set timezone = 'UTC'; create schema market; ${views}; set search_path = 'market,main'`)
    const reader = await connection.streamAndReadUntil(query.sql, query.maxRows + 1)
    const types = reader.columnTypes().map(String)
    // Intervals use DuckDB's own text, which is also the text of PostgreSQL.
    const lengths = types.includes('INTERVAL') ? reader.getRows() : []
    const rows = reader
      .getRowsJson()
      .map((row, n) => row.map((value, i) => textOf(types[i] === 'INTERVAL' ? lengths[n]?.[i]?.toString() : value)))
    return {
      columns: reader.columnNames().map((name, i) => ({ name, type: typeName(types[i] ?? '') })),
      rows: rows.slice(0, query.maxRows),
      isTruncated: rows.length > query.maxRows,
    }
  } finally {
    release()
    connection.closeSync()
    instance.closeSync()
  }
}

/** Interrupts repeatedly until released. DuckDB forgets an interrupt that comes before a statement or between two. */
function interruptOnAbort(connection: duckdb.DuckDBConnection, signal: AbortSignal | undefined): () => void {
  const interrupt = () => {
    connection.interrupt()
    takeBack = systemClock.after(50, interrupt)
  }
  let takeBack = onAbort(signal, interrupt)
  return () => takeBack()
}

async function loadDuck(): Promise<typeof duckdb> {
  try {
    return await import('@duckdb/node-api')
  } catch (error) {
    throw new Error(
      'DuckDB is not installed, which query --archive runs in: npm install @duckdb/node-api, with -g where market-recorder was installed so',
      { cause: error },
    )
  }
}

/** Views made from a table, as patterns. Naming a view counts as naming its table. */
const madeOf: Readonly<Partial<Record<MarketTable, readonly string[]>>> = {
  candles: ['ohlcv_\\w+'],
  tickers: ['latest_tickers'],
  instruments: ['latest_tickers'],
  order_books: ['order_book_levels'],
  rpi_order_books: ['rpi_order_book_levels'],
}

async function filesOf(target: ArchiveTarget, name: MarketTable, query: ArchiveQuery): Promise<string[]> {
  const table = archivedTable(name)
  const isWhole = table.timeColumn === undefined
  if (isWhole && query.database !== undefined) return fromDatabase(query.database, name, [''], [], query)
  const archived = await listNewest(target, name, { ...query, isWhole })
  const files: string[] = []
  let known: readonly ManifestColumn[] = []
  for (const place of archived) {
    query.signal?.throwIfAborted()
    const manifest = await readManifest(target, place)
    for (const { path, category } of manifest.files) {
      // For a bucket, fetch() makes a local copy, which is removed when the target is closed.
      if (isCategoryAsked(query, category)) files.push((await target.fetch(path)).localPath)
    }
    known = manifest.columns
  }
  if (query.database === undefined) return files
  const first = await firstTime(query.database.db, table, { withProof: false })
  const last = await lastTime(query.database.db, table)
  if (first === null || last === null) return files
  const archivedDays = new Set(archived.map(({ day }) => day))
  // The range includes the day that has not ended.
  const missing = daysBetween(first, Math.min(query.now + dayMs, dayEnd(dayOf(last)))).filter(
    (day) => !archivedDays.has(day) && isInRange(day, query),
  )
  return [...files, ...(await fromDatabase(query.database, name, missing, known, query))]
}

/** Writes database rows of some days to files. It uses the writer of the archive, so that both have the same types. */
async function fromDatabase(
  database: RecorderDatabase,
  name: MarketTable,
  days: readonly Day[],
  known: readonly ManifestColumn[],
  query: ArchiveQuery,
): Promise<string[]> {
  const place = join(query.folder, name)
  await mkdir(place, { recursive: true })
  const files: string[] = []
  for (const day of days) {
    const options = { folder: place, known }
    const stage = (snapshot: Snapshot) => stageDay(snapshot, archivedTable(name), day, options)
    const staged = await withSnapshot(database, stage, { signal: query.signal })
    const asked = staged.files.filter(({ category }) => isCategoryAsked(query, category))
    files.push(...asked.map(({ localPath }) => localPath))
  }
  return files
}

function isCategoryAsked({ categories }: ArchiveQuery, category: string): boolean {
  return categories === undefined || categories.includes(category)
}

function typeName(type: string): string {
  // Types with several values per field are written as JSON.
  if (/\]$|^(STRUCT|MAP)\(/.test(type)) return 'json'
  if (type.startsWith('DECIMAL')) return 'numeric'
  const names: Readonly<Record<string, string>> = {
    INTEGER: 'int4',
    SMALLINT: 'int2',
    BIGINT: 'int8',
    DOUBLE: 'float8',
    BOOLEAN: 'bool',
    VARCHAR: 'text',
    'TIMESTAMP WITH TIME ZONE': 'timestamptz',
  }
  return names[type] ?? type.toLowerCase()
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 't' : 'f'
  return JSON.stringify(value)
}
