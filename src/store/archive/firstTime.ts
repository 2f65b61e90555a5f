import { sql } from 'kysely'
import type { RecorderDatabase } from '../db/database.js'
import type { ArchivedTable } from './tables.js'

/** The oldest time that there are rows or, by default, proof of; null when there is neither. */
export async function firstTime(
  {
    database,
    isHypertable,
    withProof = true,
  }: { readonly database: RecorderDatabase; readonly isHypertable: boolean; readonly withProof?: boolean },
  table: ArchivedTable,
): Promise<number | null> {
  const { name, timeColumn = '', order } = table
  const series = ['category', 'symbol', ...order.slice(0, order.indexOf(timeColumn))]
  const of = (alias: string) => series.map((column) => `${alias}.${column}`).join(', ')
  const oldestRow = isHypertable
    ? `select min(${timeColumn}) as t from market.${name}`
    : `with recursive series as (
         (select ${series.join(', ')} from market.${name} order by ${series.join(', ')} limit 1)
         union all
         select ${of('next')} from series s cross join lateral (
           select ${of('t')} from market.${name} t where (${of('t')}) > (${of('s')}) order by ${of('t')} limit 1
         ) next
       )
       select min(o.t) as t from series s cross join lateral (
         select t.${timeColumn} as t from market.${name} t where (${of('t')}) = (${of('s')}) order by t.${timeColumn} limit 1
       ) o`
  const { rows } = await sql<{ first: number | null }>`
    select min(t) as first from (
      select t from (${sql.raw(oldestRow)}) as oldest
      union all
      select from_time from market.coverage where stream = ${name} and ${withProof}
    ) as found where t > '-infinity'`.execute(database.db)
  return rows[0]?.first ?? null
}
