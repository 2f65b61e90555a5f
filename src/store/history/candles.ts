import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Candle } from '../../market/candle.js'
import { type ColumnSpec, columnNames, rowsFrom, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { ofCandles } from '../db/series.js'
import { inStatements, keyOrder } from '../db/writeRows.js'
import type { WriteResult } from '../db/writeResult.js'

const columns: readonly (ColumnSpec & { readonly field: keyof Candle })[] = [
  { field: 'category', name: 'category', kind: 'category' },
  { field: 'symbol', name: 'symbol', kind: 'text' },
  { field: 'type', name: 'type', kind: 'candle_type' },
  { field: 'interval', name: 'interval', kind: 'candle_interval' },
  { field: 'openTime', name: 'open_time', kind: 'time' },
  { field: 'open', name: 'open', kind: 'decimal' },
  { field: 'high', name: 'high', kind: 'decimal' },
  { field: 'low', name: 'low', kind: 'decimal' },
  { field: 'close', name: 'close', kind: 'decimal' },
  { field: 'baseVolume', name: 'base_volume', kind: 'decimal' },
  { field: 'quoteTurnover', name: 'quote_turnover', kind: 'decimal' },
  { field: 'isClosed', name: 'is_closed', kind: 'boolean' },
]
const fields = columns.map(({ field }) => field)
const key = ['category', 'symbol', 'type', 'interval', 'open_time']
const values = columns.filter(({ name }) => !key.includes(name))
const assignments = sql.raw(values.map(({ name }) => `"${name}" = excluded."${name}"`).join(', '))

/** So many candles of one series are worth a look whether any of them is stored already. */
const bulkRows = 200
const rowsPerInsert = 5_000
const uniqueViolation = '23505'

export function isBulk({ length }: readonly Candle[]): boolean {
  return length >= bulkRows
}

/**
 * Stores candles of one series of which none is stored yet: without what a conflict takes, which is more than the rows themselves
 * take. Returns false, with nothing changed, where that does not apply: they are few, of several series, some is there already, or
 * somebody else was faster. Call it in a transaction.
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
        select ${columnNames(columns)} from ${incomingRows(part)} as incoming`.execute(db)
    }
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== uniqueViolation) throw error
    await sql`rollback to savepoint new_candles`.execute(db)
    return false
  }
  return true
}

function areOfOneSeries(candles: readonly Candle[]): boolean {
  const [first] = candles
  return candles.every(
    ({ category, symbol, type, interval }) =>
      symbol === first?.symbol && category === first.category && type === first.type && interval === first.interval,
  )
}

function incomingRows(candles: readonly Candle[]) {
  return rowsFrom(candles, columns, (candle, column) => candle[fields[column] as keyof Candle])
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

/** The part of a statement that does so: it gives a row with `is_new` for each candle that is inserted or updated. */
export function upsertOf(candles: readonly Candle[]): RawBuilder<unknown> {
  // Rows that would not change are not touched: in the columnstore each would cost the decompression of a batch.
  // xmax is 0 in a row that this statement inserted.
  return sql`
    insert into market.candles as stored (${columnNames(columns)})
    select distinct on (${keyOrder(key)}) ${columnNames(columns)}
    from ${incomingRows(candles)} as incoming
    order by ${keyOrder(key)}, is_closed desc, ordinality desc
    on conflict (${keyOrder(key)}) do update set ${assignments}
    where (excluded.is_closed or not stored.is_closed)
      and (${columnNames(values, 'stored')}) is distinct from (${columnNames(values, 'excluded')})
    returning stored.xmax = 0 as is_new`
}
