import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { InstrumentKey } from '../../../src/market/category.js'
import { type Fill, fillsPerPage } from '../../../src/market/fill.js'
import type { Batch } from '../../../src/ledger/batch/batch.js'
import { storeBeginningPages } from '../../../src/ledger/batch/beginningPages.js'
import { NewestPages } from '../../../src/ledger/batch/newestPages.js'
import { commitGroup, storeBatch } from '../../../src/ledger/batch/storeBatch.js'
import { storeFills } from '../../../src/ledger/batch/storeFills.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { batchOf } from '../../support/sinkUnderTest.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
const clear = () => sql`truncate market.fills, recorder.coverage, recorder.gap`.execute(test.database.db)
beforeEach(clear)

/** Fills at these milliseconds, the newest first. */
function page(symbol: string, times: readonly number[]): Batch<InstrumentKey, Fill> {
  const rows = times
    .map((ms, index) => aFill({ symbol, execId: String(1_000 + index), ts: someTime + ms }))
    .toReversed()
  return batchOf('fills', { category: 'SPOT', symbol }, rows, someTime + 60_000) as Batch<InstrumentKey, Fill>
}
const evenly = (count: number, everyMs: number) => Array.from({ length: count }, (_, index) => index * everyMs)

async function contents() {
  const { db } = test.database
  const fills = await sql`select symbol, ts, exec_id from market.fills order by symbol, ts, exec_id`.execute(db)
  const coverage = await sql`select symbol, part::text, ranges::text from recorder.coverage order by 1, 2`.execute(db)
  const gaps = await sql`select symbol, range::text, state from recorder.gap order by 1, 2`.execute(db)
  return { fills: fills.rows, coverage: coverage.rows, gaps: gaps.rows }
}

const atOnce = (...batches: readonly Batch<InstrumentKey, Fill>[]) => storeBeginningPages(test.database.db, batches)

describe('the first pages of instruments', () => {
  it('are stored in one statement, and leave what judging them step by step leaves', async () => {
    const someTimes = fc.oneof(
      // All there is, a full page, and a full page that lies in a millisecond or two.
      fc.array(fc.nat(3_000), { minLength: 1, maxLength: 20 }),
      fc.array(fc.nat(3_000), { minLength: fillsPerPage, maxLength: fillsPerPage }),
      fc.array(fc.nat(1), { minLength: fillsPerPage, maxLength: fillsPerPage }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(someTimes, { minLength: 1, maxLength: 4 }), async (all) => {
        const pages = all.map((times, index) =>
          page(
            `COIN${index}`,
            times.toSorted((a, b) => a - b),
          ),
        )
        await clear()
        const stored = await atOnce(...pages)
        const now = await contents()
        await clear()
        for (const batch of pages)
          expect(stored.get(batch)).toEqual(
            await test.database.db.transaction().execute((trx) => storeFills(trx, batch)),
          )
        expect(now).toEqual(await contents())
      }),
      { numRuns: 25 },
    )
  })

  it('may hold a fill twice', async () => {
    const { rows, ...batch } = page('A', evenly(5, 10))
    const twice = { ...batch, rows: [...rows, rows[0] as Fill] }
    expect((await atOnce(twice)).get(twice)).toEqual({ inserted: 5, updated: 0, unchanged: 1, gapsFound: 0 })
  })

  it('are told from others: those of instruments with fills, or with something proven, and empty ones', async () => {
    const { db } = test.database
    const [proven, unproven, first] = [page('A', evenly(5, 10)), page('B', evenly(5, 10)), page('C', evenly(5, 10))]
    await storeBatch(db, page('A', []))
    await sql`insert into market.fills (category, symbol, exec_id, price, size, side, ts, received_at, extra)
      values ('SPOT', 'B', 'imported', 1, 1, 'buy', ${new Date(someTime - 1_000)}, now(), '{}')`.execute(db)
    const empty = page('D', [])
    expect([...(await atOnce(proven, unproven, first, empty)).keys()]).toEqual([first])
    const { fills, coverage } = await contents()
    expect(fills).toHaveLength(6)
    expect(coverage).toHaveLength(2)
    // Between what was there and what came now, fills may be missing.
    expect(await storeBatch(db, unproven)).toMatchObject({ inserted: 5, gapsFound: 1 })
  })

  it('are tried as such first where those before them were, which changes nothing of what is stored', async () => {
    const { db } = test.database
    await storeBatch(db, page('A', evenly(5, 10)))
    const known = new NewestPages()
    const results: unknown[] = []
    // New, known to the database alone, of both kinds together, and new once more.
    for (const group of [
      [page('B', evenly(5, 10))],
      [page('A', evenly(7, 10))],
      [page('A', evenly(8, 10)), page('C', [3])],
    ]) {
      results.push(await commitGroup(db, group, known), known.areLikelyNew)
    }
    expect(results).toMatchObject([
      [{ inserted: 5, unchanged: 0 }],
      true,
      [{ inserted: 2, unchanged: 5 }],
      false,
      [{ inserted: 1, unchanged: 7 }, { inserted: 1 }],
      true,
    ])
    expect(await contents()).toMatchObject({ gaps: [], coverage: { length: 3 } })
  })

  it('of which another writer stores one at the same time are judged by what is there then', async () => {
    const { db } = test.database
    const [a, b] = [page('A', evenly(5, 10)), page('B', evenly(5, 10))]
    let second: ReturnType<typeof commitGroup> | undefined
    await db.transaction().execute(async (first) => {
      await storeFills(first, page('B', evenly(3, 10)))
      second = commitGroup(db, [a, b], new NewestPages())
      await untilSomebodyWaits(db)
    })
    expect(await second).toMatchObject([
      { inserted: 5, gapsFound: 0 },
      { inserted: 2, unchanged: 3, gapsFound: 0 },
    ])
    const { coverage, gaps } = await contents()
    expect(coverage.map((row) => (row as { ranges: string }).ranges)).toHaveLength(2)
    expect(gaps).toEqual([])
  })

  it('are stored by nobody where a fill of theirs turns up that somebody stores without a proof', async () => {
    const { db } = test.database
    const batch = page('A', evenly(5, 10))
    let stored: ReturnType<typeof atOnce> | undefined
    await db.transaction().execute(async (other) => {
      await sql`insert into market.fills (category, symbol, exec_id, price, size, side, ts, received_at, extra)
        values ('SPOT', 'A', '1002', 1, 1, 'buy', ${new Date(someTime + 20)}, now(), '{}')`.execute(other)
      stored = atOnce(batch)
      await untilSomebodyWaits(db)
    })
    expect(await stored).toEqual(new Map())
    expect(await contents()).toMatchObject({ fills: [{ exec_id: '1002' }], coverage: [] })
  })
})
