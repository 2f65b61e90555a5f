import type { QueryColumn } from '../../db/readOnlyQuery.js'
import { type ParquetColumn, parquetColumn } from '../parquet/columns.js'
import { type DecimalExtent, shapeFor, widen } from '../parquet/decimalShape.js'
import { extentList, extentsIn, isDecimal } from '../parquet/extents.js'
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
  const list = extentList(columns)
  if (list === '') return [...columns]
  const [row = []] = await snapshot.query(`select ${list} from ${from.sql}`, from.parameters)
  const extents = extentsIn(row, columns)
  return columns.map(({ name, type }) => {
    const found = extents.get(name)
    if (found === undefined) return { name, type }
    const before = known.find((column) => column.name === name)
    if (before?.digits === undefined || before.scale === undefined) return { name, type, ...withSpare(found) }
    return { name, type, ...widen({ digits: before.digits, scale: before.scale }, found) }
  })
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
