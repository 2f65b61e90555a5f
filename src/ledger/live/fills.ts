import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import type { TimeMs } from '../../market/values.js'
import { columnNames } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { keyOrder, rowTable } from '../../db/writeRows.js'
import type { WriteResult } from '../../db/writeResult.js'

const table = rowTable<Fill>('market.fills', ['category', 'symbol', 'ts', 'exec_id'], {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  execId: 'text',
  execLinkId: 'text',
  side: 'side',
  price: 'decimal',
  size: 'decimal',
  isRpi: 'boolean',
  receivedAt: 'time',
  extra: 'json',
})

export interface FillPageResult extends WriteResult {
  /** Time of the oldest of these fills that was there already; null when all are new. */
  readonly sharedFrom: TimeMs | null
}

/** Stores the fills of some responses, in one statement, and says of each how far back it overlaps with what was stored. */
export async function insertFillPages(
  db: Kysely<Database>,
  pages: readonly (readonly Fill[])[],
): Promise<FillPageResult[]> {
  const fills = pages.flat()
  if (fills.length === 0) return pages.map(() => ({ inserted: 0, updated: 0, unchanged: 0, sharedFrom: null }))
  const { rows } = await sql<{ category: string; symbol: string; ts: TimeMs; execId: string }>`
    ${insertingFills(fills)} returning category, symbol, ts, exec_id as "execId"`.execute(db)
  const isNew = new Set(rows.map(({ category, symbol, ts, execId }) => `${category} ${symbol} ${ts} ${execId}`))
  return pages.map((page) => {
    let sharedFrom: TimeMs | null = null
    // A fill may stand in a page twice: it is inserted once, and not there before.
    const inserted = new Set<string>()
    for (const { category, symbol, ts, execId } of page) {
      const key = `${category} ${symbol} ${ts} ${execId}`
      if (isNew.has(key)) inserted.add(key)
      else if (sharedFrom === null || ts < sharedFrom) sharedFrom = ts
    }
    return { inserted: inserted.size, updated: 0, unchanged: page.length - inserted.size, sharedFrom }
  })
}

/**
 * The statement that inserts those of the fills that are not there yet.
 *
 * @param among joins what the fills are limited to
 * @param areNew none of them is there yet: the statement takes a sixth less time, and fails where one is
 */
export function insertingFills(
  fills: readonly Fill[],
  among: RawBuilder<unknown> = sql``,
  areNew = false,
): RawBuilder<unknown> {
  return sql`
    insert into market.fills (${columnNames(table.columns)})
    select ${columnNames(table.columns)} from ${table.source(fills)} as incoming ${among}
    order by ${keyOrder(table.key)}
    ${sql.raw(areNew ? '' : 'on conflict do nothing')}`
}

/** Time of the newest fill of an instrument at or before `oldest` that is not one of `fills`; null when there is none. */
export async function newestFillBefore(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  oldest: TimeMs,
  fills: readonly Fill[],
): Promise<TimeMs | null> {
  const own = fills.filter(({ ts }) => ts === oldest).map(({ execId }) => execId)
  const { rows } = await sql<{ ts: TimeMs }>`
    select ts from market.fills
    where category = ${category} and symbol = ${symbol} and ts <= ${new Date(oldest)}::timestamptz
      and not (ts = ${new Date(oldest)}::timestamptz and exec_id = any(${own}::text[]))
    order by ts desc limit 1`.execute(db)
  return rows[0]?.ts ?? null
}
