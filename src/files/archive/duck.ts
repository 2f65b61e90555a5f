import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type * as duckdb from '@duckdb/node-api'
import { onAbort } from '../../runtime/abort.js'
import { systemClock } from '../../runtime/clock.js'
import { dayMs, minuteMs } from '../../market/values.js'
import type { QueryResult } from '../../db/readOnlyQuery.js'
import type { RecorderDatabase } from '../../db/database.js'
import { rollups } from '../../server/timescale/rollups.js'
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
import { categories } from '../../market/category.js'
import { type MarketTable, marketTables } from '../../market/stream.js'
import type { ArchiveTarget } from './target.js'

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

/**
 * Runs one query in DuckDB over the archive, and over the database for days that are not archived. Relations have the
 * same names, such as market.fills. Throws one line if DuckDB is missing, or on errors of SQL.
 */
export async function queryArchive(target: ArchiveTarget, query: ArchiveQuery): Promise<QueryResult> {
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
): Promise<QueryResult> {
  // By default, DuckDB would keep what does not fit into memory in the working directory.
  const limits = { threads: '2', memory_limit: '2GB', temp_directory: query.folder }
  const instance = await DuckDBInstance.create(':memory:', limits)
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
  let earlier: readonly ManifestColumn[] = []
  for (const place of archived) {
    query.signal?.throwIfAborted()
    const manifest = await readManifest(target, place)
    for (const { path, category } of manifest.files) {
      // For a bucket, fetch() makes a local copy, which is removed when the target is closed.
      if (isCategoryAsked(query, category)) files.push((await target.fetch(path)).localPath)
    }
    earlier = manifest.columns
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
  return [...files, ...(await fromDatabase(query.database, name, missing, earlier, query))]
}

/** Writes database rows of some days to files. It uses the writer of the archive, so that both have the same types. */
async function fromDatabase(
  database: RecorderDatabase,
  name: MarketTable,
  days: readonly Day[],
  earlier: readonly ManifestColumn[],
  query: ArchiveQuery,
): Promise<string[]> {
  const folder = join(query.folder, name)
  await mkdir(folder, { recursive: true })
  const files: string[] = []
  for (const day of days) {
    const options = { folder, earlier }
    const table = archivedTable(name)
    const stage = (snapshot: Snapshot) => stageDay(snapshot, table, day, options)
    const staged = await withSnapshot(database, stage, { table, signal: query.signal })
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

/** Columns that the database computes and the files do not contain, as SQL text by table. */
const computed: Readonly<Partial<Record<MarketTable, string>>> = {
  order_books: booksWith(),
  rpi_order_books: booksWith(),
}

function booksWith(): string {
  return `, bid_prices[1] as best_bid, ask_prices[1] as best_ask, (bid_prices[1] + ask_prices[1]) * 0.5 as mid,
    ask_prices[1] - bid_prices[1] as spread`
}

/** Returns DuckDB statements for the views of schema market over files, named and defined as in the database. */
function viewsOver(files: ReadonlyMap<MarketTable, readonly string[]>): string {
  const there = [...files].filter(([, paths]) => paths.length > 0)
  const names = new Set(there.map(([name]) => name))
  return [
    // The enum sorts categories as the database does.
    `create type market.category as enum (${categories.map((name) => `'${name}'`).join(', ')})`,
    ...there.map(([name, paths]) => tableView(name, paths)),
    ...there.flatMap(([name]) => viewsOf(name, names)),
    // Defines a PostgreSQL function, so that a query can run on both engines.
    `create macro market.date_bin(stride, source, of_origin) as
      time_bucket(stride::interval, source::timestamptz, of_origin::timestamptz)`,
  ].join(';\n')
}

function tableView(name: MarketTable, paths: readonly string[]): string {
  const list = paths.map((path) => `'${path.replaceAll("'", "''")}'`).join(', ')
  return `create view market.${name} as
    select * replace (category::market.category as category)${computed[name] ?? ''}
    from read_parquet([${list}], union_by_name = true, hive_partitioning = false)`
}

function viewsOf(name: MarketTable, names: ReadonlySet<MarketTable>): string[] {
  switch (name) {
    case 'candles':
      return rollups.map(({ name: rollup, widthMs }) => {
        const width = `interval '${widthMs / minuteMs} minutes'`
        const bucket = `time_bucket(${width}, open_time, timestamptz '1970-01-01 00:00:00+00')`
        return `create view market.${rollup} as
          select category, symbol, ${bucket} as open_time, arg_min(open, c.open_time) as open, max(high) as high,
            min(low) as low, arg_max(close, c.open_time) as close, sum(base_volume) as base_volume,
            sum(quote_turnover) as quote_turnover
          from market.candles c where type = 'market' and interval = '1m' and is_closed group by 1, 2, 3`
      })
    case 'tickers': {
      const newest =
        'select * from market.tickers qualify row_number() over (partition by category, symbol order by ts desc) = 1'
      const joined = `select t.*, i.kind, i.disappeared_at from (${newest}) t join market.instruments i using (category, symbol)`
      return [`create view market.latest_tickers as ${names.has('instruments') ? joined : newest}`]
    }
    case 'order_books':
      return [levels('order_book_levels', name, '')]
    case 'rpi_order_books':
      return [levels('rpi_order_book_levels', name, 'rpi_size')]
    default:
      return []
  }
}

function levels(view: string, table: string, rpi: string): string {
  const side = (which: 'bid' | 'ask') => {
    const more = rpi === '' ? '' : `, unnest(${which}_rpi_sizes) as ${rpi}`
    return `select category, symbol, ts, '${which}' as side, unnest(range(1, len(${which}_prices) + 1))::integer as level,
      unnest(${which}_prices) as price, unnest(${which}_sizes) as size${more} from market.${table}`
  }
  return `create view market.${view} as ${side('bid')} union all ${side('ask')}`
}

/** Value of `said_at` that sorts after every manifest. The database then decides about gaps that it knows. */
const newestSaying = '9999'

const series = 'category, symbol, stream, type, interval'
const relations = {
  coverage: `
    with found as (
      select *, max(to_time) over (partition by ${series} order by from_time, to_time
        rows between unbounded preceding and 1 preceding) as known_to
      from recorder_proof where kind = 'coverage'
    ), islands as (
      -- Manifests cut ranges at the ends of days. Ranges that touch are joined again.
      select *, count(*) filter (where known_to is null or from_time > known_to)
        over (partition by ${series} order by from_time, to_time) as island
      from found
    )
    select ${series}, min(from_time) as from_time, max(to_time) as to_time from islands group by ${series}, island`,
  gaps: `
    select ${series}, from_time, to_time, reason, state from recorder_proof where kind = 'gaps'
    qualify row_number() over (partition by ${series}, from_time, to_time order by said_at desc) = 1`,
} as const

/**
 * Returns DuckDB statements for market.coverage and market.gaps, if a query names them. The ranges come from manifests
 * and from the database, if there is one.
 */
async function proofViews(
  target: ArchiveTarget,
  source: ArchiveQuery,
  isNamed: (name: string) => boolean,
): Promise<string[]> {
  const named = (['coverage', 'gaps'] as const).filter(isNamed)
  if (named.length === 0) return []
  const path = join(source.folder, 'proof.jsonl')
  await pipeline(Readable.from(lines(target, source)), createWriteStream(path, { mode: 0o600 }))
  return [
    `create view recorder_proof as
      select * replace (category::market.category as category) from read_json('${path.replaceAll("'", "''")}',
        format = 'newline_delimited', columns = {kind: 'varchar', category: 'varchar', symbol: 'varchar', stream: 'varchar',
        type: 'varchar', interval: 'varchar', from_time: 'timestamptz', to_time: 'timestamptz', reason: 'varchar',
        state: 'varchar', said_at: 'varchar'})`,
    ...named.map((name) => `create view market.${name} as ${relations[name]}`),
  ]
}

async function* lines(target: ArchiveTarget, { database, signal, ...range }: ArchiveQuery): AsyncIterable<string> {
  for (const table of marketTables.filter((name) => archivedTable(name).stream !== null)) {
    for (const place of await listNewest(target, table, range)) {
      signal?.throwIfAborted()
      const { proof, writtenAt } = await readManifest(target, place)
      for (const { coverage, gaps, stream, category, symbol, ...candles } of proof) {
        const key = { category, symbol, stream, type: candles.type || null, interval: candles.interval || null }
        for (const [from, to] of coverage) yield line({ kind: 'coverage', ...key, from_time: from, to_time: to })
        for (const { from, to, reason, state } of gaps) {
          yield line({ kind: 'gaps', ...key, from_time: from, to_time: to, reason, state, said_at: writtenAt })
        }
      }
    }
  }
  if (database === undefined) return
  const columns = ['category', 'symbol', 'stream', 'type', 'interval', 'from_time', 'to_time']
  const read = async (snapshot: Snapshot) => ({
    coverage: await snapshot.query(`select ${columns.join(', ')} from market.coverage`),
    gaps: await snapshot.query(`select ${columns.join(', ')}, reason, state from market.gaps`),
  })
  const known = await withSnapshot(database, read, { signal })
  for (const [kind, rows] of Object.entries(known)) {
    for (const row of rows) {
      const named = [...columns, 'reason', 'state'].map((name, i): [string, string | null] => [name, row[i] ?? null])
      yield line({ kind, ...(Object.fromEntries(named) as Record<string, string | null>), said_at: newestSaying })
    }
  }
}

function line(value: Readonly<Record<string, string | null>>): string {
  return `${JSON.stringify(value)}\n`
}
