import { type Kysely, sql } from 'kysely'
import type { RpiSymbol } from '../../market/orderBook.js'
import type { TimeMs } from '../../market/values.js'
import { type ColumnSpec, rowsFrom, toDate } from '../../db/columns.js'
import { inTransaction } from '../../db/inTransaction.js'
import { lockNames } from '../../db/locks/names.js'
import { lockInTransaction } from '../../db/locks/rowLock.js'
import type { Database } from '../../db/schema.js'
import type { WriteResult } from '../../db/writeResult.js'

export interface RpiSymbolsResult extends WriteResult {
  /** Members that are not on the list any more. */
  readonly disappeared: number
}

const columns: readonly ColumnSpec[] = [
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
]

/**
 * Stores the RPI list as it was at `seenAt`, as periods of membership. Unless `complete` is false, who is not on it has left.
 * A list older than what is known of a symbol does not touch it. One transaction.
 */
export async function recordRpiSymbols(
  db: Kysely<Database>,
  symbols: readonly RpiSymbol[],
  seenAt: TimeMs,
  options: { readonly complete?: boolean } = {},
): Promise<RpiSymbolsResult> {
  const at = sql`${toDate(seenAt)}::timestamptz`
  const source = rowsFrom(symbols, columns, (row, column) => (column === 0 ? row.category : row.symbol))
  return inTransaction(db, async (trx) => {
    // Two recorders would otherwise both open a period.
    await lockInTransaction(trx, lockNames.rpiSymbols)
    const left =
      options.complete === false
        ? undefined
        : await sql`
            update market.rpi_symbols set valid_to = ${at}
            where valid_to is null and valid_from < ${at}
              and (category, symbol) not in (select category, symbol from ${source} as listed)`.execute(trx)
    const joined = await sql`
      insert into market.rpi_symbols (category, symbol, valid_from)
      select distinct category, symbol, ${at} from ${source} as listed
      where not exists (
        select from market.rpi_symbols known
        where known.category = listed.category and known.symbol = listed.symbol
          and (known.valid_to is null or known.valid_to > ${at})
      )
      on conflict (category, symbol, valid_from) do nothing`.execute(trx)
    const inserted = Number(joined.numAffectedRows ?? 0n)
    const disappeared = Number(left?.numAffectedRows ?? 0n)
    return { inserted, updated: 0, unchanged: symbols.length - inserted, disappeared }
  })
}
