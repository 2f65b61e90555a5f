import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { InstrumentKey } from '../../../src/market/category.js'
import { type Fill, fillsPerPage } from '../../../src/market/rows.js'
import { createRandom } from '../../../src/simulator/world/hash.js'
import type { Batch } from '../../../src/ledger/batch.js'
import { storeBatch, storeBatches } from '../../../src/ledger/storeBatches.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, aTicker } from '../../support/marketRows.js'

let alone: TestDatabase
let together: TestDatabase
beforeAll(async () => {
  ;[alone, together] = await Promise.all([createTestDatabase(), createTestDatabase()])
})
afterAll(async () => {
  await alone.drop()
  await together.drop()
})

/** Responses of some instruments as they come: pages that follow on, pages after a loss, late ones, and empty ones. */
function responses(seed: number): Batch<InstrumentKey, Fill>[] {
  const random = createRandom(seed)
  const start = 1_760_000_000_000
  const happened = new Map<string, number>()
  return Array.from({ length: 120 }, (_, round) => {
    const symbol = `N${Math.floor(random() * 7)}S${seed}USDT`
    const before = happened.get(symbol) ?? 0
    const count = before === 0 && random() < 0.3 ? 0 : before + Math.floor(random() * 160)
    happened.set(symbol, count)
    // Now and then one that was asked for earlier comes late.
    const shown = random() < 0.1 ? Math.max(0, count - 250) : count
    const rows = Array.from({ length: Math.min(fillsPerPage, shown) }, (_row, index) => {
      const number = shown - Math.min(fillsPerPage, shown) + index
      return aFill({ symbol, ts: start + Math.floor(number / 3) * 10, execId: String(number) })
    })
    const receivedAt = start + 1_000_000 + round
    const target = { category: 'SPOT', symbol } as const
    return { stream: 'fills', target, requestTime: receivedAt, receivedAt, rows, rejected: [] }
  })
}

/** Splits responses into calls, in their order. A call has at most one response of an instrument. */
function inCalls(batches: readonly Batch<InstrumentKey, Fill>[]): Batch<InstrumentKey, Fill>[][] {
  const calls: Batch<InstrumentKey, Fill>[][] = []
  for (const batch of batches) {
    const last = calls.at(-1)
    if (last === undefined || last.some(({ target }) => target.symbol === batch.target.symbol)) calls.push([batch])
    else last.push(batch)
  }
  return calls
}

async function contents({ database: { db } }: TestDatabase) {
  const fills = await sql`select symbol, ts, exec_id from market.fills order by 1, 2, 3`.execute(db)
  const coverage = await sql`select symbol, ranges::text from recorder_page.coverage order by 1`.execute(db)
  const gaps = await sql`select symbol, range::text, reason, state from recorder_page.gap order by 1, 2, 3, 4`.execute(
    db,
  )
  return { fills: fills.rows, coverage: coverage.rows, gaps: gaps.rows }
}

test('stored together, responses say what they say one after the other', async () => {
  for (let seed = 1; seed <= 3; seed++) {
    const batches = responses(seed)
    let [gapsAlone, gapsTogether] = [0, 0]
    for (const batch of batches) gapsAlone += (await storeBatch(alone.database.db, batch)).gapsFound
    for (const call of inCalls(batches)) {
      const outcomes = await storeBatches(together.database.db, call)
      for (const outcome of outcomes) gapsTogether += outcome.isStored ? outcome.gapsFound : Number.NaN
    }
    expect(gapsTogether).toBe(gapsAlone)
  }
  const stored = await contents(together)
  expect(stored).toEqual(await contents(alone))
  expect(stored.fills.length).toBeGreaterThan(1000)
  expect(stored.gaps.length).toBeGreaterThan(5)
})

test('a response of moments that takes too long as a whole is stored in parts', async () => {
  const { db, pool } = alone.database
  await pool.query(`
    create function public.tire() returns trigger language plpgsql as $$
      begin
        if (select count(*) from market.tickers where xmin = pg_current_xact_id()::xid) >= 150 then
          raise exception 'canceling statement due to statement timeout' using errcode = '57014';
        end if;
        return new;
      end $$;
    create trigger tire before insert on market.tickers for each row execute function public.tire()`)
  const rows = Array.from({ length: 450 }, (_, index) => aTicker({ symbol: `T${index}` }))
  const batch = batchOf('tickers', { category: 'SPOT' }, rows, 1_760_000_000_000)
  expect(await storeBatches(alone.database.db, [batch])).toMatchObject([{ isStored: true, inserted: 450, rejected: 0 }])
  const { rows: stored } = await sql`select from market.tickers`.execute(db)
  expect(stored).toHaveLength(450)
})

test('a response of fills that takes too long is not stored, and its rows are not rejected', async () => {
  const { db, pool } = alone.database
  await pool.query(`
    create function public.tire_fills() returns trigger language plpgsql as $$
      begin
        if new.symbol = 'TIRING' then
          raise exception 'canceling statement due to statement timeout' using errcode = '57014';
        end if;
        return new;
      end $$;
    create trigger tire before insert on market.fills for each row execute function public.tire_fills()`)
  const at = 1_760_000_000_000
  const row = aFill({ symbol: 'TIRING', execId: '1', ts: at - 5_000 })
  const batch = batchOf('fills', { category: 'SPOT', symbol: 'TIRING' }, [row], at)
  const ofTiring = () =>
    db.selectFrom('recorder.rejected_row').select('reason').where('raw', 'like', '%TIRING%').execute()
  expect(await storeBatches(db, [batch])).toMatchObject([{ isStored: false }])
  expect(await ofTiring()).toEqual([])
})

test('rows behind more refused ones than are kept are stored, and the loss of refused ones is named', async () => {
  const { db } = together.database
  const refused = (count: number) => Array.from({ length: count }, () => aTicker({ symbol: '' }))
  const honest = Array.from({ length: 400 }, (_, index) => aTicker({ symbol: `H${index}` }))
  const rows = [...refused(130), ...honest.slice(0, 200), ...refused(1), ...honest.slice(200)]
  const outcome = await storeBatch(db, batchOf('tickers', { category: 'SPOT' }, rows, 1_760_000_000_000))
  expect(outcome).toMatchObject({ inserted: 400, unchanged: 0, rejected: 131 })
  expect(outcome.remarks).toEqual(['31 rows of a response of SPOT were left out: the database refuses too many of it'])
})
