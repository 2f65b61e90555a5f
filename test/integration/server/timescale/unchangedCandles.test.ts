import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Candle } from '../../../../src/market/candle.js'
import { storeCandles } from '../../../../src/ledger/storeCandles.js'
import { detectServer } from '../../../../src/server/timescale/server.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aCandle, someTime } from '../../../support/marketRows.js'
import { stopSchedules } from '../../../support/schedules.js'

const minute = 60_000
const count = 30_240
/** One batch of the columnstore holds so many rows at most. */
const batchRows = 1_000

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
  await stopSchedules(created.database)
})
afterAll(async () => created?.drop())

/** Three weeks of minutes, of which these have another close. */
function candles(changed: readonly number[] = []): Candle[] {
  return Array.from({ length: count }, (_, index) =>
    aCandle({ openTime: someTime + index * minute, ...(changed.includes(index) && { close: '10.5' }) }),
  )
}

/** Stores candles in pages of a backfill, and counts how they were written. */
async function store(all: readonly Candle[], pageRows: number) {
  const total = { inserted: 0, updated: 0 }
  for (let start = 0; start < all.length; start += pageRows) {
    const written = await storeCandles(created.database.db, all.slice(start, start + pageRows))
    for (const kind of ['inserted', 'updated'] as const) total[kind] += written[kind]
  }
  return total
}

/** Counts the rows that are not in the columnstore, by the server's own tables. */
async function rowsOutside(): Promise<number> {
  const { db } = created.database
  const { rows } = await sql<{ name: string }>`
    select s.compress_relid::regclass::text as name
    from _timescaledb_catalog.compression_settings s
    join timescaledb_information.chunks c on s.relid = format('%I.%I', c.chunk_schema, c.chunk_name)::regclass
    where c.hypertable_name = 'candles' and s.compress_relid is not null`.execute(db)
  const inside = rows.map(({ name }) => sql`select sum(_ts_meta_count) as rows from ${sql.raw(name)}`)
  const found = await sql<{ outside: number }>`
    select ((select count(*) from market.candles) - coalesce(sum(rows), 0))::int as outside
    from (${sql.join(inside, sql` union all `)}) as s`.execute(db)
  return found.rows[0]?.outside ?? -1
}

test.each([200, 500, 1_000])(
  'candles that come again unchanged stay in the columnstore, in pages of %i',
  async (pageRows) => {
    const { db } = created.database
    if ((await detectServer(db)).kind !== 'timescale-community') {
      // Without a columnstore the counts are the same, and of a few pages.
      const rows = 3 * pageRows
      expect(await store(candles().slice(0, rows), pageRows)).toEqual({ inserted: rows, updated: 0 })
      expect(await store(candles([9]).slice(0, rows), pageRows)).toEqual({ inserted: 0, updated: 1 })
      await sql`truncate market.candles`.execute(db)
      return
    }
    await sql`truncate market.candles`.execute(db)
    await store(candles(), 5_000)
    await sql`select public.compress_chunk(c) from public.show_chunks('market.candles') c`.execute(db)
    expect(await rowsOutside()).toBe(0)
    expect(await store(candles(), pageRows)).toEqual({ inserted: 0, updated: 0 })
    expect(await rowsOutside()).toBe(0)

    expect(await store(candles([9, 15_000, 30_000]), pageRows)).toEqual({
      inserted: 0,
      updated: 3,
    })
    const outside = await rowsOutside()
    expect(outside).toBeLessThanOrEqual(3 * batchRows)
  },
)
