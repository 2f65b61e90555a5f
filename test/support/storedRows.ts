import type pg from 'pg'
import { keyOf, type RecordedTable, trimmed, type TruthRow } from './servedTruth.js'

/** Every row of a table as text in the spelling of the truth, by key. Fails when a key is there twice, unless told otherwise. */
export async function storedRows(
  pool: pg.Pool,
  table: RecordedTable,
  { isOnceEach = true }: { readonly isOnceEach?: boolean } = {},
): Promise<Map<string, TruthRow>> {
  const { rows: columns } = await pool.query<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
    [`market.${table}`],
  )
  const selected = columns.map(({ name, type }) => `${asText(name, type)} as "${name}"`).join(', ')
  const only = table === 'rpi_symbols' ? 'where valid_to is null' : ''
  const { rows } = await pool.query<Record<string, string | null>>(`select ${selected} from market.${table} ${only}`)
  const byKey = new Map<string, TruthRow>()
  for (const row of rows) {
    const trimmedRow = Object.fromEntries(
      columns.map(({ name, type }) => [
        name,
        type.endsWith('[]') ? trimmedArray(row[name]) : trimmed(row[name] ?? null),
      ]),
    )
    const key = keyOf(table, trimmedRow)
    if (isOnceEach && byKey.has(key)) throw new Error(`market.${table} holds ${key} twice`)
    byKey.set(key, trimmedRow)
  }
  return byKey
}

function asText(name: string, type: string): string {
  if (type.startsWith('timestamp')) return `trunc(extract(epoch from "${name}") * 1000)::text`
  return `"${name}"::text`
}

function trimmedArray(text: string | null | undefined): string | null {
  if (text == null) return null
  return `{${text
    .slice(1, -1)
    .split(',')
    .map((element) => trimmed(element))
    .join(',')}}`
}

/**
 * Describes how the stored rows differ from those that were served, in at most `most` lines. Empty if they are equal.
 *
 * @param taken the responses that the recorder has certainly got. Rows of later ones may be missing. Default: all.
 */
export function differences(
  table: RecordedTable,
  stored: ReadonlyMap<string, TruthRow>,
  truth: ReadonlyMap<string, readonly TruthRow[]>,
  accepts: 'any served' | 'last served',
  { taken = truth, most = 10 }: { readonly taken?: typeof truth; readonly most?: number } = {},
): string[] {
  const lines: string[] = []
  for (const [key, served] of truth) {
    const row = stored.get(key)
    if (row === undefined) {
      if (!taken.has(key)) continue
      lines.push(`${table}: ${key} was served but is not stored`)
      continue
    }
    const candidates = accepts === 'last served' ? fromLast(served, taken.get(key)?.at(-1)) : served
    const nearest = candidates
      .map((candidate) => differingColumns(row, candidate))
      .toSorted((a, b) => a.length - b.length)[0]
    if (nearest !== undefined && nearest.length > 0) lines.push(`${table}: ${key}: ${nearest.join('; ')}`)
  }
  for (const key of stored.keys()) if (!truth.has(key)) lines.push(`${table}: ${key} is stored but was never served`)
  return lines.slice(0, most)
}

/** Returns the last row that was served, or all rows since the last that was certainly taken. */
function fromLast(served: readonly TruthRow[], taken: TruthRow | undefined): readonly TruthRow[] {
  const from = taken === undefined ? 0 : served.findLastIndex((row) => differingColumns(row, taken).length === 0)
  return served.slice(Math.max(0, from))
}

function differingColumns(stored: TruthRow, served: TruthRow): string[] {
  return Object.entries(served)
    .filter(([column, value]) => stored[column] !== value)
    .map(([column, value]) => `${column} is ${String(stored[column])}, was served as ${String(value)}`)
}
