import { type Kysely, sql } from 'kysely'
import type { Database } from '../../src/db/schema.js'
import { hourMs, type TimeMs } from '../../src/market/values.js'

/** Stores a settled rate, a forming one, two equal liquidations, positioning, and versions of lists, of an hour after `from`. */
export async function insertFutures(db: Kysely<Database>, from: TimeMs): Promise<void> {
  const after = (hours: number) => new Date(from + hours * hourMs)
  const key = sql`'USDT-FUTURES', 'BTCUSDT', ${after(1)}::timestamptz`
  await sql`insert into market.funding_rates (category, symbol, ts, funding_rate, interval_hours, received_at)
    values (${key}, -0.000100, 8, ${after(2)})`.execute(db)
  await sql`insert into market.funding_forecasts (category, symbol, ts, funding_rate, next_update, received_at)
    values (${key}, 0.00010, ${after(8)}, ${after(1)})`.execute(db)
  await sql`insert into market.liquidations (category, symbol, ts, side, price, amount, occurrence, received_at)
    select ${key}, 'sell', 60000.10, 0.50, occurrence, ${after(2)}::timestamptz from generate_series(1, 2) as occurrence`.execute(
    db,
  )
  await sql`insert into market.taker_flow (category, symbol, ts, buy_volume, sell_volume, received_at)
    values (${key}, 12.50, 8.250, ${after(2)})`.execute(db)
  for (const table of ['long_short_ratios', 'long_short_accounts', 'long_short_positions'])
    await sql`insert into ${sql.table(`market.${table}`)} (category, symbol, ts, long_share, short_share, received_at)
      values (${key}, 0.6000, 0.4000, ${after(2)})`.execute(db)
  const period = sql`${after(1)}::timestamptz, ${after(2)}::timestamptz`
  const future = sql`'USDT-FUTURES', 'BTCUSDT'`
  await sql`insert into market.index_components (category, symbol, exchange, spot_pair, weight, valid_from, valid_to)
    select ${future}, exchange, 'BTCUSDT', 0.5000, ${period} from unnest('{b,A,é}'::text[]) as exchange`.execute(db)
}
