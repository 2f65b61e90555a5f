import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type Candle, isSameSeries } from '../market/candle.js'
import { columnNames, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { ofCandles } from '../db/series.js'
import { inStatements, keyOrder, rowTable } from '../db/writeRows.js'
import type { WriteResult } from '../db/writeRows.js'

const { key, columns, source } = rowTable<Candle>(
  'market.candles',
  ['category', 'symbol', 'type', 'interval', 'open_time'],
  {
    category: 'category',
    symbol: 'text',
    type: 'candle_type',
    interval: 'candle_interval',
    openTime: 'time',
    open: 'decimal',
    high: 'decimal',
    low: 'decimal',
    close: 'decimal',
    baseVolume: 'decimal',
    quoteTurnover: 'decimal',
    isClosed: 'boolean',
  },
)
const values = columns.filter(({ name }) => !key.includes(name))
const assignments = sql.raw(values.map(({ name }) => `"${name}" = excluded."${name}"`).join(', '))

/** Number of candles of one series from which it is worth checking whether any of them is stored already. */
const bulkRows = 200
const rowsPerInsert = 5_000
const uniqueViolation = '23505'

function isBulk({ length }: readonly Candle[]): boolean {
  return length >= bulkRows
}

/**
 * Stores candles of one series of which none is stored yet. Handling conflicts would take longer than storing the rows.
 *
 * Returns false, with nothing changed, if the candles are few or of several series. Returns false also if some are
 * stored already, or another writer was faster. Call it in a transaction.
 */
export async function insertNewCandles(db: Kysely<Database>, candles: readonly Candle[]): Promise<boolean> {
  const [first] = candles
  if (first === undefined || !isBulk(candles) || !areOfOneSeries(candles)) return false
  const times = candles.map(({ openTime }) => openTime).toSorted((a, b) => a - b)
  if (times.some((time, index) => time === times[index - 1])) return false
  const [from, to] = [toDate(times[0] as number), toDate(times.at(-1) as number)]
  const { rows } = await sql<{ isThere: boolean }>`
    select exists (
      select from market.candles where ${ofCandles(first)} and open_time between ${from} and ${to}
    ) as "isThere"`.execute(db)
  if (rows[0]?.isThere !== false) return false
  await sql`savepoint new_candles`.execute(db)
  try {
    for (let start = 0; start < candles.length; start += rowsPerInsert) {
      const part = candles.slice(start, start + rowsPerInsert)
      await sql`
        insert into market.candles (${columnNames(columns)})
        select ${columnNames(columns)} from ${source(part)} as incoming`.execute(db)
    }
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== uniqueViolation) throw error
    await sql`rollback to savepoint new_candles`.execute(db)
    return false
  }
  return true
}

export function areOfOneSeries(candles: readonly Candle[]): boolean {
  const [first] = candles
  return candles.every((candle) => first !== undefined && isSameSeries(first, candle))
}

/**
 * Stores candles. A forming candle is overwritten until a closed one arrives; a closed one is replaced by a closed one only,
 * and the database logs the change to recorder.candle_revision. Of a candle that stands twice in the batch the final one counts.
 */
export async function upsertCandles(db: Kysely<Database>, candles: readonly Candle[]): Promise<WriteResult> {
  return inStatements(candles, async (part) => {
    const { rows } = await sql<{ inserted: number; updated: number }>`
      with written as (${upsertOf(part)})
      select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from written
    `.execute(db)
    return { inserted: rows[0]?.inserted ?? 0, updated: rows[0]?.updated ?? 0, unchanged: 0 }
  })
}

/**
 * Builds the part of a statement that stores candles. It returns a row with `is_new` for each inserted or updated
 * candle.
 */
export function upsertOf(candles: readonly Candle[]): RawBuilder<unknown> {
  // Rows that would not change are not touched: in the columnstore each would cost the decompression of a batch.
  // xmax is 0 in a row that this statement inserted.
  return sql`
    insert into market.candles as stored (${columnNames(columns)})
    select distinct on (${keyOrder(key)}) ${columnNames(columns)}
    from ${source(candles)} as incoming
    order by ${keyOrder(key)}, is_closed desc, ordinality desc
    on conflict (${keyOrder(key)}) do update set ${assignments}
    where (excluded.is_closed or not stored.is_closed)
      and (${columnNames(values, 'stored')}) is distinct from (${columnNames(values, 'excluded')})
    returning stored.xmax = 0 as is_new`
}
