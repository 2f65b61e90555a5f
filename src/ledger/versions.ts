import { type Kysely, type RawBuilder, sql } from 'kysely'
import { columnNames, instant, snakeCase } from '../db/columns.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database } from '../db/schema.js'
import { keyOrder, type RowTable, streamTable, type WriteResult } from '../db/writeRows.js'
import { bounds } from '../market/bounds.js'
import { type RowOf, streamTraits, type VersionStream } from '../market/stream.js'
import type { ServiceMs } from '../market/values.js'
import { type Batch, type FuturesTarget, isWholeList } from './batch.js'

export interface VersionsResult extends WriteResult {
  /** Number of rows that a whole list no longer contained. */
  readonly disappeared: number
}

/** A list as it was at a moment. */
interface SeenList<Row> {
  readonly rows: readonly Row[]
  readonly seenAt: ServiceMs
  /** Condition for `known` rows that have disappeared if the list lacks them; null for a list that is not whole. */
  readonly whole: RawBuilder<boolean> | null
  /** Columns whose change opens a new version. */
  readonly compared: RowTable<Row>['columns']
}

/**
 * Stores a list as versions of its rows. A change closes the open version of a row and opens a new one. Rows that a
 * later list has changed stay as they are. Runs as one transaction.
 */
export async function recordVersions<Row>(
  db: Kysely<Database>,
  { name, key, columns, source }: RowTable<Row>,
  { rows, seenAt, whole, compared }: SeenList<Row>,
): Promise<VersionsResult> {
  const table = sql.table(name)
  const at = instant(seenAt)
  // The later row counts if a response contains a row twice.
  const listed = sql`(select distinct on (${keyOrder(key)}) * from ${source(rows)} as incoming
    order by ${keyOrder(key)}, ordinality desc) as listed`
  const isSame = sql.raw(key.map((name) => `known."${name}" = listed."${name}"`).join(' and '))
  const isOpen = sql`known.valid_to is null and known.valid_from < ${at}`
  return inTransaction(db, async (trx) => {
    const count = async (statement: RawBuilder<unknown>) => Number((await statement.execute(trx)).numAffectedRows ?? 0n)
    // Takes a lock, because two recorders could otherwise both open a version.
    await lockInTransaction(trx, lockNames.versions(name))
    const updated =
      compared.length === 0
        ? 0
        : await count(sql`
            update ${table} known set valid_to = ${at} from ${listed}
            where ${isSame} and ${isOpen}
              and (${columnNames(compared, 'known')}) is distinct from (${columnNames(compared, 'listed')})`)
    const disappeared =
      whole === null
        ? 0
        : await count(sql`
            update ${table} known set valid_to = ${at}
            where ${whole} and ${isOpen} and not exists (select from ${listed} where ${isSame})`)
    const opened = await count(sql`
      insert into ${table} (${columnNames(columns)}, valid_from)
      select ${columnNames(columns)}, ${at} from ${listed}
      where not exists (
        select from ${table} known where ${isSame} and (known.valid_to is null or known.valid_to > ${at})
      )
      on conflict do nothing`)
    if (opened > 0) await thinOut(trx, table, key, at)
    return { inserted: opened - updated, updated, disappeared }
  })
}

/**
 * Bounds the versions of a row in a day: of more than these, the one before the newest is dropped, and the version
 * before it lasts as long, if nothing lies between them. So the newest is always kept, and no version begins before it
 * was seen.
 */
async function thinOut(
  trx: Kysely<Database>,
  table: RawBuilder<unknown>,
  key: readonly string[],
  at: RawBuilder<ServiceMs>,
): Promise<void> {
  const isRowOf = (name: string) =>
    sql.raw(key.map((column) => `known."${column}" = ${name}."${column}"`).join(' and '))
  await sql`
    with recent as (
      select *, lag(valid_from) over of_row as former, lag(valid_from, ${bounds.versions}) over of_row as excess
      from ${table} where valid_from > ${at} - interval '1 day'
      window of_row as (partition by ${keyOrder(key)} order by valid_from)
    ), dropped as (
      delete from ${table} known using recent
      where ${isRowOf('recent')} and known.valid_from = recent.former and recent.valid_from = ${at} and excess is not null
      returning known.*
    )
    update ${table} known set valid_to = dropped.valid_to from dropped
    where ${isRowOf('dropped')} and known.valid_to = dropped.valid_from`.execute(trx)
}

/** Stores the list of an instrument, or of all instruments of a category. */
export async function storeVersions<Name extends VersionStream>(
  db: Kysely<Database>,
  stream: Name,
  batch: Batch<FuturesTarget & { readonly symbol?: string }, RowOf<Name>>,
): Promise<VersionsResult> {
  const { category, symbol } = batch.target
  const ofInstrument = symbol === undefined ? sql`` : sql`and known.symbol = ${symbol}`
  const table = streamTable(stream)
  const traits = streamTraits[stream]
  const moving = 'moving' in traits ? traits.moving.map(snakeCase) : []
  const rest: readonly string[] = [...table.key, ...moving, 'extra']
  return recordVersions(db, table, {
    rows: batch.rows,
    seenAt: batch.requestTime,
    whole: isWholeList(batch) ? sql`known.category = ${category} ${ofInstrument}` : null,
    compared: table.columns.filter(({ name }) => !rest.includes(name)),
  })
}
