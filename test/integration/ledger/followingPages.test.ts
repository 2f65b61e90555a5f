import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { InstrumentKey } from '../../../src/market/category.js'
import { type Fill, fillsPerPage } from '../../../src/market/fill.js'
import type { Batch } from '../../../src/ledger/batch/batch.js'
import { storeFollowingPages } from '../../../src/ledger/batch/followingPages.js'
import { NewestPages } from '../../../src/ledger/batch/newestPages.js'
import { storeBatch } from '../../../src/ledger/batch/storeBatch.js'
import { storeFills } from '../../../src/ledger/batch/storeFills.js'
import type { Database } from '../../../src/db/schema.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { batchOf } from '../../support/sinkUnderTest.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.fills, recorder.coverage, recorder.gap`.execute(test.database.db)
})

/** Fills with these numbers, one each 10 ms: the whole page where they are 100. */
function page(from: number, to: number, symbol = 'BTCUSDT'): Batch<InstrumentKey, Fill> {
  const rows = Array.from({ length: to - from }, (_, index) =>
    aFill({ symbol, execId: String(from + index), ts: someTime + (from + index) * 10 }),
  )
  return batchOf('fills', { category: 'SPOT', symbol }, rows, someTime + to * 10) as Batch<InstrumentKey, Fill>
}
const full = (to: number, symbol?: string) => page(to - fillsPerPage, to, symbol)

async function contents() {
  const { db } = test.database
  const fills = await sql`select symbol, exec_id from market.fills order by symbol, ts`.execute(db)
  const coverage = await sql`select symbol, ranges::text from recorder.coverage order by 1`.execute(db)
  const gaps = await sql`select symbol, range::text, state from recorder.gap order by 1, 2`.execute(db)
  return { fills: fills.rows, coverage: coverage.rows, gaps: gaps.rows }
}

const atOnce = async (batch: Batch<InstrumentKey, Fill>) =>
  (await storeFollowingPages(test.database.db, [batch], new NewestPages())).get(batch)

describe('pages of fills that follow on', () => {
  it('are stored in one statement, and leave what judging them step by step leaves', async () => {
    const { db } = test.database
    const pages = [full(160), full(200), full(200), page(101, 201), full(280)]
    await storeBatch(db, full(100))
    const results = []
    for (const batch of pages) results.push(await atOnce(batch))
    expect(results.map((result) => result?.inserted)).toEqual([60, 40, 0, 1, 79])
    expect(results[0]).toEqual({ inserted: 60, updated: 0, unchanged: 40, gapsFound: 0 })
    const stored = await contents()
    await sql`truncate market.fills, recorder.coverage, recorder.gap`.execute(db)
    for (const batch of [full(100), ...pages]) await db.transaction().execute((trx) => storeFills(trx, batch))
    expect(stored).toEqual(await contents())
    expect(stored.gaps).toEqual([])
  })

  it('of an instrument that never had a full page follow on, too', async () => {
    await storeBatch(test.database.db, page(0, 5))
    expect(await atOnce(page(0, 9))).toMatchObject({ inserted: 4 })
    expect(await contents()).toMatchObject({
      gaps: [],
      coverage: [{ ranges: expect.stringMatching(/^\{[^}]*\}$/) as string }],
    })
  })

  it('others are left: the first, those after a loss, those of the past, those that begin with what is newest, and empty ones', async () => {
    const { db } = test.database
    expect(await atOnce(full(100))).toBeUndefined()
    expect((await contents()).fills).toEqual([])
    await storeBatch(db, page(0, 100))
    await storeBatch(db, full(400))
    const before = await contents()
    expect(before.gaps).toHaveLength(1)
    // The newest millisecond of a stretch is not part of it: it may grow.
    for (const batch of [full(600), full(180), page(399, 499), page(0, 0)]) expect(await atOnce(batch)).toBeUndefined()
    expect(await contents()).toEqual(before)
  })

  it('are told apart in one statement for several instruments', async () => {
    const { db } = test.database
    for (const symbol of ['A', 'B']) await storeBatch(db, full(100, symbol))
    const [a, b, c] = [full(150, 'A'), full(300, 'B'), full(100, 'C')]
    const stored = await storeFollowingPages(db, [c, b, a], new NewestPages())
    expect([...stored.keys()]).toEqual([a])
    expect((await contents()).fills).toHaveLength(250)
  })

  it('nothing is stored where a fill turned up in what is proven', async () => {
    const { db } = test.database
    await storeBatch(db, full(100))
    const odd = full(150)
    const late = aFill({ symbol: 'BTCUSDT', execId: 'late', ts: someTime + 60 * 10 })
    const before = await contents()
    expect(await atOnce({ ...odd, rows: [...odd.rows.slice(1), late] })).toBeUndefined()
    expect(await contents()).toEqual(before)
  })

  it('nothing is stored where another writer has changed what they were judged by; the next try is judged by what is there now', async () => {
    const { db } = test.database
    await storeBatch(db, full(100))
    const batch = full(150)
    let second: Promise<unknown> | undefined
    await db.transaction().execute(async (first) => {
      await storeFills(first, full(130))
      second = atOnce(batch)
      // It has begun, and waits for the lock of the series.
      await untilSomebodyWaits(db)
    })
    expect(await second).toBeUndefined()
    expect(await storeBatch(db, batch)).toMatchObject({ inserted: 20, gapsFound: 0 })
    expect(await contents()).toMatchObject({ gaps: [] })
  })

  describe('where the page before is known to be stored', () => {
    const known = new NewestPages()
    const store = async (batch: Batch<InstrumentKey, Fill>) => {
      const stored = await storeBatch(test.database.db, batch, known)
      known.stored(batch)
      return stored
    }

    it('only what is new travels, and what of it is stored is the same', async () => {
      const pages = [full(100), full(160), full(200), full(200), page(101, 201), full(280)]
      const inserted = []
      for (const batch of pages) inserted.push((await store(batch)).inserted)
      expect(inserted).toEqual([100, 60, 40, 0, 1, 79])
      expect(known.unknownOf(full(300)).rows.map(({ execId }) => Number(execId))).toEqual(
        Array.from({ length: 20 }, (_, index) => 280 + index),
      )
      const stored = await contents()
      const { db } = test.database
      await sql`truncate market.fills, recorder.coverage, recorder.gap`.execute(db)
      for (const batch of pages) await db.transaction().execute((trx) => storeFills(trx, batch))
      expect(stored).toEqual(await contents())
    })

    it('what brings nothing new says nothing to the database, and holds up nothing beside it', async () => {
      await store(full(200))
      const [same, more] = [full(200), full(220, 'ETHUSDT')]
      const nothing = { inserted: 0, updated: 0, unchanged: fillsPerPage, gapsFound: 0 }
      const nowhere = null as unknown as Kysely<Database>
      expect(await storeFollowingPages(nowhere, [same], known)).toEqual(new Map([[same, nothing]]))
      await storeBatch(test.database.db, full(210, 'ETHUSDT'))
      const stored = await storeFollowingPages(test.database.db, [same, more], known)
      expect(stored.get(same)).toEqual(nothing)
      expect(stored.get(more)).toMatchObject({ inserted: 10, unchanged: 90 })
    })

    it('a fill that turned up among those is noticed all the same', async () => {
      await store(full(100))
      const odd = full(150)
      const late = aFill({ symbol: 'BTCUSDT', execId: 'late', ts: someTime + 60 * 10 })
      expect(await store({ ...odd, rows: [...odd.rows.slice(1), late] })).toMatchObject({ inserted: 51 })
      expect((await contents()).fills).toHaveLength(151)
    })

    it('one that another recorder has stored in the meantime is not stored twice', async () => {
      await store(full(100))
      await storeBatch(test.database.db, full(130))
      expect(await store(full(150))).toMatchObject({ inserted: 20, unchanged: 80, gapsFound: 0 })
      expect(await store(full(160))).toMatchObject({ inserted: 10, unchanged: 90, gapsFound: 0 })
      expect((await contents()).fills).toHaveLength(160)
    })

    it('nothing is claimed of a database that was set back', async () => {
      const { db } = test.database
      await store(full(100))
      const before = await contents()
      const kept = await sql`select * from recorder.coverage`.execute(db)
      await store(full(150))
      await sql`delete from market.fills where exec_id::int >= 100`.execute(db)
      await sql`update recorder.coverage set ranges = ${(kept.rows as { ranges: string }[])[0]?.ranges}`.execute(db)
      expect(await contents()).toEqual(before)
      expect(await store(full(190))).toMatchObject({ inserted: 90, gapsFound: 0 })
      const { fills, gaps } = await contents()
      expect(gaps).toEqual([])
      expect(fills).toHaveLength(190)
    })
  })
})
