import type { QueryColumn } from '../db/readOnlyQuery.js'
import { type ParquetColumn, parquetColumn } from '../parquet/columns.js'
import { type DecimalExtent, shapeFor, widen } from '../parquet/decimalShape.js'
import type { ManifestColumn } from './manifest.js'
import type { Snapshot } from './snapshot.js'
import type { ArchivedTable } from './tables.js'

/** Two digits more on each side at first cost nothing, and save most tables from a change of type. */
const spare = 2

/** The columns of a table but for those that the database computes: readers compute them, too. */
export async function tableColumns(snapshot: Snapshot, { name }: ArchivedTable): Promise<QueryColumn[]> {
  const rows = await snapshot.query(
    `select a.attname, t.typname from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum`,
    [`market.${name}`],
  )
  return rows.map(([column, type]) => ({ name: column ?? '', type: type ?? '' }))
}

/** With the room that earlier days needed; null when a decimal column is among them that no day has had. */
export function withKnownExtents(
  columns: readonly QueryColumn[],
  known: readonly ManifestColumn[],
): ManifestColumn[] | null {
  const found = columns.map(({ name, type }): ManifestColumn | null => {
    if (!isDecimal(type)) return { name, type }
    const { digits, scale } = known.find((column) => column.name === name) ?? {}
    return digits === undefined || scale === undefined ? null : { name, type, digits, scale }
  })
  return found.includes(null) ? null : (found as ManifestColumn[])
}

/** With the room that the rows of a table need, and that which was known before. */
export async function withExtents(
  snapshot: Snapshot,
  from: { readonly sql: string; readonly parameters: readonly unknown[] },
  columns: readonly QueryColumn[],
  known: readonly ManifestColumn[],
): Promise<ManifestColumn[]> {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  if (decimals.length === 0) return [...columns]
  const list = decimals.flatMap(({ name, type }) => {
    const column = `t."${name}"`
    const of = (expression: (value: string) => string) =>
      type === 'numeric'
        ? `max(${expression(column)})`
        : `max((select max(${expression('e')}) from unnest(${column}) as e))`
    return [of((value) => `abs(${value})`), of((value) => `scale(trim_scale(${value}))`)]
  })
  const [row = []] = await snapshot.query(`select ${list.join(', ')} from ${from.sql}`, from.parameters)
  return columns.map(({ name, type }) => {
    const index = decimals.findIndex((column) => column.name === name)
    if (index < 0) return { name, type }
    const found = extentOf(row[index * 2] ?? null, row[index * 2 + 1] ?? null)
    const before = known.find((column) => column.name === name)
    if (before?.digits === undefined || before.scale === undefined) return { name, type, ...withSpare(found) }
    return { name, type, ...widen({ digits: before.digits, scale: before.scale }, found) }
  })
}

function extentOf(max: string | null, scale: string | null): DecimalExtent {
  // NaN and infinities have no digits; they do not fit any decimal type.
  const digits = max === null ? 0 : /^\d/.test(max) ? max.split('.')[0]?.replace(/^0$/, '').length : 99
  return { digits: digits ?? 0, scale: Number(scale ?? 0) }
}

function withSpare(extent: DecimalExtent): DecimalExtent {
  const wider = { digits: extent.digits + spare, scale: extent.scale + spare }
  return shapeFor(wider) === 'text' ? extent : wider
}

export function parquetColumns(columns: readonly ManifestColumn[]): ParquetColumn[] {
  return columns.map(({ name, type, digits, scale }) =>
    digits === undefined || scale === undefined
      ? parquetColumn({ name, type })
      : parquetColumn({ name, type }, shapeFor({ digits, scale })),
  )
}

function isDecimal(type: string): boolean {
  return type === 'numeric' || type === '_numeric'
}
