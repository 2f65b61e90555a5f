import type { DatabasePool } from '../../db/pool.js'
import { timeTables } from '../../market/stream.js'

/** The series of a table: what its primary key begins with, before the time. */
export interface StoredSeries {
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
export async function seriesIn({ pool }: DatabasePool, relation: string): Promise<StoredSeries | undefined> {
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
