import { type RawBuilder, sql } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import { seriesByKey } from '../../db/timeTables.js'
import type { ArchivedTable } from './tables.js'

interface Place {
  readonly database: RecorderDatabase
  readonly isHypertable: boolean
}

/** The oldest time that there are rows or, by default, proof of; null when there is neither. */
export async function firstTime(
  { database, isHypertable, withProof = true }: Place & { readonly withProof?: boolean },
  table: ArchivedTable,
): Promise<number | null> {
  const { rows } = await sql<{ first: number | null }>`
    select min(t) as first from (
      select t from (${endOfRows(table, isHypertable, 'min')}) as oldest
      union all
      select from_time from market.coverage where stream = ${table.name} and ${withProof}
    ) as found where t > '-infinity'`.execute(database.db)
  return rows[0]?.first ?? null
}

/** The newest time that there are rows or proof of; null when there is neither. */
export async function lastTime({ database, isHypertable }: Place, table: ArchivedTable): Promise<number | null> {
  const { name } = table
  const { rows } = await sql<{ last: number | null }>`
    select max(t) as last from (
      select t from (${endOfRows(table, isHypertable, 'max')}) as newest
      union all
      select to_time from market.coverage where stream = ${name}
      union all
      select to_time from market.gaps where stream = ${name}
      union all
      select to_time from market.no_trade where ${name} = 'candles'
    ) as found where t < 'infinity'`.execute(database.db)
  return rows[0]?.last ?? null
}

/** A plain table has no index on the time alone: each series is found by a step in the key, and asked for its end. */
function endOfRows(table: ArchivedTable, isHypertable: boolean, end: 'min' | 'max'): RawBuilder<unknown> {
  const { name, timeColumn = '' } = table
  if (isHypertable) return sql.raw(`select ${end}(${timeColumn}) as t from market.${name}`)
  const { keyOf, series } = seriesByKey(table)
  return sql.raw(`
    with recursive ${series}
    select ${end}(o.t) as t from series s cross join lateral (
      select t.${timeColumn} as t from market.${name} t where (${keyOf('t')}) = (${keyOf('s')})
      order by t.${timeColumn} ${end === 'min' ? 'asc' : 'desc'} limit 1
    ) o`)
}
