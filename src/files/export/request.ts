import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { DatabasePool } from '../../db/pool.js'
import { type QueryColumn, readInBatches } from '../../db/readOnlyQuery.js'
import type { Category } from '../../market/category.js'
import { addMs, dayMs, earlierOf, laterOf, type ServiceMs, serviceMs } from '../../market/values.js'
import { counted } from '../../runtime/text.js'
import { quoteName } from '../parquet/columns.js'
import { type ExportFormat, exportFormats } from './files.js'
import { isProven, streamNames, timeTables } from '../../market/stream.js'

/** Source of an export: a relation of schema `market`, or a query. */
export interface ExportSource {
  /** Name of the relation, or `query`. It is part of file names. */
  readonly name: string
  /** SQL text that follows "from". */
  readonly sql: string
  readonly columns: readonly QueryColumn[]
  /** Column by whose time rows are split into days. Absent if the source has no such column or no instruments. */
  readonly timeColumn?: string
  /** Series of a table whose key begins with them. */
  readonly series?: StoredSeries
}

const endOfTime = serviceMs(Date.UTC(9999, 0))
const [rangeStart, rangeEnd] = ['from_time', 'to_time']
/** Columns by which rows can be split into days. The first one that exists is used. */
const timeColumns = ['ts', 'open_time', rangeStart]

/** Reads the columns of a relation or query. Throws if it does not exist, or if a statement writes. */
export async function describeSource(database: DatabasePool, what: string): Promise<ExportSource> {
  const relation = /^(?:market\.)?([a-z_][a-z0-9_]*)$/.exec(what.trim())?.[1]
  const sql = relation === undefined ? `(${withoutEnd(what)}\n) as q` : `market.${relation} as q`
  const options = { batchRows: 1, timeoutMs: 60_000 }
  const columns = await readInBatches(database, `select * from ${sql} limit 0`, options, (found) =>
    Promise.resolve(found),
  )
  const names = new Set(columns.map(({ name }) => name))
  if (names.size < columns.length) throw new Error('two columns have the same name: give each its own with "as"')
  const hasInstrument = names.has('category') && names.has('symbol')
  const timeColumn = hasInstrument ? timeColumns.find((name) => names.has(name)) : undefined
  const series = relation === undefined ? undefined : await seriesIn(database, relation)
  return {
    name: relation ?? 'query',
    sql,
    columns,
    ...(timeColumn !== undefined && { timeColumn }),
    ...(series !== undefined && { series }),
  }
}

/** Reads all symbols that the recorder knows, of some categories or all, to match patterns against them. */
export async function knownSymbols(database: DatabasePool, categories?: readonly Category[]): Promise<string[]> {
  const { rows } = await database.pool.query<{ symbol: string }>(
    `select symbol from (
       select category, symbol from market.instruments union select category, symbol from market.coverage
       union select category, symbol from market.gaps where symbol <> '*'
     ) as known where $1::text[] is null or category::text = any($1) group by symbol order by 1`,
    [categories ?? null],
  )
  return rows.map(({ symbol }) => symbol)
}

function withoutEnd(sql: string): string {
  return sql.replace(/[\s;]+$/, '')
}

interface TimeSpan {
  readonly from: ServiceMs
  readonly to: ServiceMs
}

/** Rows from `from` up to but not including `to`. The times matter only for sources that are split into days. */
export interface ExportRequest extends TimeSpan {
  /** The relation or query, as the user gave it. */
  readonly what: string
  readonly source: ExportSource
  readonly folder: string
  readonly format: ExportFormat
  /** Categories whose rows are selected. Default: all. */
  readonly categories?: readonly string[]
  readonly symbols?: readonly string[]
  /** Patterns that chose the symbols. A later call with the same patterns continues, even if new symbols match them. */
  readonly symbolPatterns?: readonly string[]
  /** True to begin again in a folder that holds another export. */
  readonly isOverwriting?: boolean
}

type Selection = Pick<ExportRequest, 'source' | 'from' | 'categories' | 'symbols'>

export interface Part extends TimeSpan {
  /** Name of the part: a day, or `all`. */
  readonly name: string
}

/** Lists the parts of an export. A day that is there keeps the times of earlier exports, and is only made longer. */
export function partsOf({ source, from, to }: ExportRequest, there: ExportManifest['parts']): Part[] {
  if (source.timeColumn === undefined) return [{ name: 'all', from, to }]
  const parts: Part[] = []
  for (let day = serviceMs(Math.floor(from / dayMs) * dayMs); day < to; day = addMs(day, dayMs)) {
    const name = new Date(day).toISOString().slice(0, 10)
    const part = { name, from: laterOf(from, day), to: earlierOf(to, addMs(day, dayMs)) }
    const before = isOfRanges(source) ? undefined : there[name]
    if (before !== undefined) {
      part.from = earlierOf(part.from, serviceMs(Date.parse(before.from)))
      part.to = laterOf(part.to, serviceMs(Date.parse(before.to)))
    }
    parts.push(part)
  }
  return parts
}

/** Returns true for a source such as `coverage`, whose rows are ranges of time. */
export function isOfRanges({ timeColumn, columns }: ExportSource): boolean {
  return timeColumn === rangeStart && columns.some(({ name }) => name === rangeEnd)
}

/** A statement of the server, with the values of its parameters. */
interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Builds the statement for the rows of a part, ordered by instrument and time. `expression` gives each column. */
export function selectRows(
  request: ExportRequest,
  part: TimeSpan,
  expression: (column: QueryColumn, quoted: string) => string,
): Statement {
  const { columns, timeColumn } = request.source
  const list = columns.map((column) => {
    const quoted = quoteName(column.name)
    return `${expression(column, `q.${quoted}`)} as ${quoted}`
  })
  const { sql, parameters } = selectedRows(request, part)
  const order = timeColumn === undefined ? '' : ` order by q.category, q.symbol, q.${quoteName(timeColumn)}`
  return { sql: `select ${list.join(', ')} from ${sql}${order}`, parameters }
}

/**
 * Builds the SQL text for the rows of a part that follows "from". A row of a relation with ranges, such as `coverage`,
 * belongs to the day in which its range begins, or to the first day of the export if the range began before.
 */
export function selectedRows(
  { source, from: first, categories, symbols }: Selection,
  { from, to }: TimeSpan,
): Statement {
  const { sql, timeColumn, series } = source
  if (timeColumn === undefined) return { sql, parameters: [] }
  const time = `q.${quoteName(timeColumn)}`
  const parameters: unknown[] = [new Date(from), new Date(to)]
  const isOlder =
    isOfRanges(source) && from === first ? `(${time} < $1::timestamptz and q.${rangeEnd} > $1::timestamptz) or ` : ''
  const conditions = [`(${isOlder}${time} >= $1::timestamptz)`, `${time} < $2::timestamptz`]
  if (categories !== undefined) conditions.push(`q.category = any($${parameters.push(categories)}::market.category[])`)
  // A gap of the symbol * is one of all instruments.
  const found = symbols && (isOfRanges(source) ? [...symbols, '*'] : symbols)
  if (found !== undefined) conditions.push(`q.symbol = any($${parameters.push(found)}::text[])`)
  if (series !== undefined) {
    const keys = series.columns.map((name) => `q.${quoteName(name)}`).join(', ')
    const lists = series.values.map((values, i) => `$${parameters.push(values)}::text[]::${series.types[i]}[]`)
    conditions.push(`(${keys}) in (select * from unnest(${lists.join(', ')}))`)
  }
  return { sql: `${sql} where ${conditions.join(' and ')}`, parameters }
}

/** Reads the time just after the newest selected row; the beginning if there is none. No clock has a say in it. */
export async function endOfRows(database: DatabasePool, selection: Selection): Promise<ServiceMs> {
  const { source, from } = selection
  if (source.timeColumn === undefined) return from
  const { sql, parameters } = selectedRows(selection, { from, to: endOfTime })
  const newest = `select floor(extract(epoch from max(q.${quoteName(source.timeColumn)})) * 1000)::text from ${sql}`
  return readInBatches(database, newest, { batchRows: 1, parameters }, async (_, batches) => {
    for await (const [row] of batches) return row?.[0] == null ? from : serviceMs(Number(row[0]) + 1)
    return from
  })
}

/** Says how much of the time of an export is proven to be recorded. Null for what nothing is proven of. */
export async function describeProof(
  { pool }: DatabasePool,
  { source, from, categories, symbols }: Selection,
  to: ServiceMs,
): Promise<string | null> {
  const stream = streamNames.find((name) => name === source.name)
  if (stream === undefined || !isProven(stream) || from >= to) return null
  const isSelected = 'stream = $1 and category::text = any(coalesce($4, array[category::text]))'
  const isWithin = 'from_time < $3::timestamptz and to_time > $2::timestamptz'
  const seconds = 'extract(epoch from least(to_time, $3) - greatest(from_time, $2))'
  const { rows } = await pool.query<{ share: number; series: number; gaps: number }>(
    `select coalesce(avg(share), 0)::float8 as share, count(*)::int as series, (
        select count(*) from market.gaps
        where ${isSelected} and (symbol = any(coalesce($5, array[symbol])) or symbol = '*') and ${isWithin} and state <> 'repaired'
      )::int as gaps
      from (
        select coalesce(sum(${seconds}) filter (where ${isWithin}), 0) / extract(epoch from $3 - $2) as share
        from market.coverage where ${isSelected} and symbol = any(coalesce($5::text[], array[symbol]))
        group by category, symbol, type, interval
      ) as covered`,
    [stream, new Date(from), new Date(to), categories ?? null, symbols ?? null],
  )
  const { share = 0, series = 0, gaps = 0 } = rows[0] ?? {}
  const mean = series > 1 ? ` (mean of ${series} series)` : ''
  const percent = share > 0 && share < 0.001 ? 'less than 0.1' : Math.floor(share * 1000) / 10
  return `${percent} % of the time is recorded${mean}, ${counted(gaps, 'gap')}: see market.coverage and market.gaps`
}

/** Builds a statement for one text that changes with any value of any row of a part. */
export function selectFingerprint(request: ExportRequest, part: TimeSpan): Statement {
  const { sql, parameters } = selectedRows(request, part)
  const hashes = 'coalesce(sum(hashtextextended((q.*)::text, 0)), 0)'
  return { sql: `select count(*)::text || ' ' || ${hashes}::text as fingerprint from ${sql}`, parameters }
}

/** Contents of an export folder. A repeated command reads it to continue an export that was stopped. */
const manifestSchema = z.strictObject({
  /** The database that the rows are of; null before a recorder has named it. */
  database: z.strictObject({ id: z.string(), place: z.string() }).nullable(),
  what: z.string(),
  format: z.enum(exportFormats),
  categories: z.array(z.string()).nullable(),
  symbols: z.array(z.string()).nullable(),
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })),
  /**
   * Largest number of digits before and after the point, by decimal column. These numbers determine the column types.
   */
  decimals: z.record(z.string(), z.strictObject({ digits: z.int(), scale: z.int() })),
  /** Columns whose decimals are written as text. */
  asText: z.array(z.string()),
  /** Parts by day; the key is `all` when rows are not split into days. No other folders are replaced or removed. */
  parts: z.record(
    z.string().regex(/^(all|\d{4}-\d{2}-\d{2})$/),
    z.strictObject({
      from: z.string(),
      to: z.string(),
      rows: z.int(),
      files: z.int(),
      /** Changes with the rows of the database. If it is another one, the files are written again. Empty before. */
      fingerprint: z.string(),
    }),
  ),
})
export type ExportManifest = z.infer<typeof manifestSchema>

const fileName = 'export.json'

/** Returns null if the folder has no manifest. Throws if the manifest is damaged. */
export async function readExportManifest(folder: string): Promise<ExportManifest | null> {
  const path = join(folder, fileName)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  try {
    return manifestSchema.parse(JSON.parse(text))
  } catch (error) {
    throw new Error(`${path} is damaged, or no export's: export into another folder`, { cause: error })
  }
}

/** Replaces the manifest in one step, so that the file is never incomplete. */
export async function writeExportManifest(folder: string, manifest: ExportManifest): Promise<void> {
  const path = join(folder, fileName)
  await writeFile(`${path}.new`, `${JSON.stringify(manifest, null, 2)}\n`)
  await rename(`${path}.new`, path)
}

/** The series of a table: what its primary key begins with, before the time. */
interface StoredSeries {
  readonly columns: readonly string[]
  /** Values of each column, by series. */
  readonly values: readonly (readonly string[])[]
  readonly types: readonly string[]
}

/**
 * Reads which series a table has, by one look-up in its primary key for each. Without them, a range of time of all
 * instruments is no range of the key, and servers before PostgreSQL 18 read the whole table. Undefined for anything
 * but a plain table: chunks are chosen by time.
 */
async function seriesIn({ pool }: DatabasePool, relation: string): Promise<StoredSeries | undefined> {
  const table = timeTables.find(({ name }) => name === relation)
  if (table === undefined) return undefined
  const { rows: found } = await pool.query<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute a join pg_class c on c.oid = a.attrelid
     where a.attrelid = $1::regclass and attname = any($2) and c.relkind = 'r' and not c.relhassubclass`,
    [`market.${relation}`, table.seriesColumns],
  )
  if (found.length === 0) return undefined
  const columns = table.seriesColumns
  const list = columns.join(', ')
  const { rows } = await pool.query<string[]>({
    text: `
      with recursive series as (
        (select ${list} from market.${relation} order by ${list} limit 1)
        union all
        select n.* from series s cross join lateral (
          select ${list} from market.${relation} where (${list}) > (${columns.map((name) => `s.${name}`).join(', ')})
          order by ${list} limit 1
        ) n
      )
      select ${columns.map((name) => `${name}::text`).join(', ')} from series`,
    rowMode: 'array',
  })
  const typeOf = (column: string) => found.find(({ name }) => name === column)?.type ?? 'text'
  return { columns, types: columns.map(typeOf), values: columns.map((_, i) => rows.map((row) => row[i] ?? '')) }
}
