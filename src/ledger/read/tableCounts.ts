import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'

/** The tables of schema `market`, in the order in which people want to read about them. */
export const marketTables = [
  'instruments',
  'instrument_history',
  'rpi_symbols',
  'tickers',
  'order_books',
  'rpi_order_books',
  'fills',
  'candles',
] as const
export type MarketTable = (typeof marketTables)[number]

/** Exact number of rows of each table of schema `market`. Reads all of them. */
export async function countRows(db: Kysely<Database>): Promise<Record<MarketTable, number>> {
  const counts = marketTables.map(
    (name) => sql`(select count(*) from ${sql.table(`market.${name}`)}) as ${sql.ref(name)}`,
  )
  const { rows } = await sql<Record<MarketTable, number>>`select ${sql.join(counts)}`.execute(db)
  const [row] = rows
  if (row === undefined) throw new Error('counting rows gave no response')
  return row
}
