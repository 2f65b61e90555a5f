import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import type { Decimal, TimeMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'

export interface BookSide {
  readonly prices: Decimal[]
  /** Visible size at each price. */
  readonly sizes: Decimal[]
  /** RPI size at each price; null when the snapshot does not include it. */
  readonly rpiSizes: Decimal[] | null
}

export interface BookRow {
  readonly ts: TimeMs
  readonly receivedAt: TimeMs
  readonly bids: BookSide
  readonly asks: BookSide
}

interface StoredBook {
  readonly ts: TimeMs
  readonly receivedAt: TimeMs
  readonly bidPrices: Decimal[]
  readonly bidSizes: Decimal[]
  readonly bidRpiSizes: Decimal[] | null
  readonly askPrices: Decimal[]
  readonly askSizes: Decimal[]
  readonly askRpiSizes: Decimal[] | null
}

/** How much newer a book without RPI sizes must be to be worth more than one with them. */
const rpiTrustMs = 60_000

/** The newest snapshot of an instrument, cut to `depth` levels a side; one that tells the RPI part where there is one. */
export async function latestBook(db: Kysely<Database>, key: InstrumentKey, depth: number): Promise<BookRow | null> {
  const [plain, rpi] = await Promise.all([newest(db, key, depth, false), newest(db, key, depth, true)])
  const chosen = rpi !== null && (plain === null || plain.ts - rpi.ts <= rpiTrustMs) ? rpi : plain
  if (chosen === null) return null
  const { ts, receivedAt, bidPrices, bidSizes, bidRpiSizes, askPrices, askSizes, askRpiSizes } = chosen
  return {
    ts,
    receivedAt,
    bids: { prices: bidPrices, sizes: bidSizes, rpiSizes: bidRpiSizes },
    asks: { prices: askPrices, sizes: askSizes, rpiSizes: askRpiSizes },
  }
}

async function newest(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  depth: number,
  withRpi: boolean,
): Promise<StoredBook | null> {
  const rpi = withRpi
    ? sql`bid_rpi_sizes[:${depth}] as "bidRpiSizes", ask_rpi_sizes[:${depth}] as "askRpiSizes"`
    : sql`null as "bidRpiSizes", null as "askRpiSizes"`
  const { rows } = await sql<StoredBook>`
    select ts, received_at as "receivedAt", bid_prices[:${depth}] as "bidPrices", bid_sizes[:${depth}] as "bidSizes",
      ask_prices[:${depth}] as "askPrices", ask_sizes[:${depth}] as "askSizes", ${rpi}
    from ${sql.table(withRpi ? 'market.rpi_order_books' : 'market.order_books')}
    where category = ${category} and symbol = ${symbol}
    order by ts desc limit 1`.execute(db)
  return rows[0] ?? null
}
