import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Batch, type FillBatch, withoutOldRows } from '../../../src/ledger/batch.js'
import { forget } from '../../../src/ledger/forget.js'
import { storeBatch, storeBatches } from '../../../src/ledger/storeBatches.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { multirangeText } from '../../../src/ledger/verdicts.js'
import { callFunction } from '../../../src/db/database.js'
import { dayMs } from '../../../src/market/values.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())

const keptMs = 30 * dayMs
const store = async (...batches: readonly Batch[]) =>
  storeBatches(
    created.database.db,
    batches.map((batch) => withoutOldRows(batch, keptMs)),
  )

/** A page of 100 fills, one a day, the newest of them so many days ago. */
function page(symbol: string, newest: number, requested = someTime): Batch {
  const times = Array.from({ length: 100 }, (_, i) => someTime - (newest + i) * dayMs)
  const fills = times.map((ts) => aFill({ symbol, ts, execId: `${ts}` }))
  return batchOf('fills', { category: 'SPOT', symbol }, fills, requested)
}

async function stored(symbol: string): Promise<{ days: number[]; covered: number[]; gaps: number }> {
  const { db } = created.database
  const fills = await db.selectFrom('market.fills').select('ts').where('symbol', '=', symbol).orderBy('ts').execute()
  const { rows } = await sql<{ from: number; to: number }>`
    select from_time as "from", to_time as "to" from market.coverage where symbol = ${symbol}`.execute(db)
  const gaps = await sql`select from market.gaps where symbol = ${symbol}`.execute(db)
  return {
    days: fills.map(({ ts }) => (someTime - ts) / dayMs),
    covered: rows.map(({ from, to }) => (to - from) / dayMs),
    gaps: gaps.rows.length,
  }
}

test.each([
  ['OLDUSDT', 40, [40]],
  ['SLOWUSDT', 27, [31, 30, 29, 28, 27]],
  ['NEWUSDT', 0, Array.from({ length: 32 }, (_, i) => 31 - i)],
])('of the 100 fills of %s those that are too old stay away but for one', async (symbol, newest, days) => {
  await store(page(symbol, newest), page(symbol, newest, someTime + 60_000))
  const known = (days[0] ?? 0) - newest
  expect(await stored(symbol)).toEqual({ days, covered: known === 0 ? [] : [expect.closeTo(known, 2)], gaps: 0 })

  // The next fill follows on from the one that was kept.
  const late = page(symbol, newest, someTime + 120_000)
  const fill = aFill({ symbol, ts: someTime + 60_000, execId: 'late' })
  await store({ ...late, rows: [fill, ...late.rows.slice(0, 99)] })
  expect(await stored(symbol)).toMatchObject({ covered: [expect.closeTo(days[0] ?? 0, 2)], gaps: 0 })
})

test('of the first 1,000 daily candles those that are too old stay away', async () => {
  const times = Array.from({ length: 1_000 }, (_, i) => someTime - i * dayMs)
  const target = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1D' }
  const candles = times.map((openTime) => aCandle({ interval: '1D', openTime }))
  await store(batchOf('candles', target, candles, someTime))
  const { rows } = await sql<{ n: number }>`select count(*)::integer as n from market.candles`.execute(
    created.database.db,
  )
  expect(rows).toEqual([{ n: 31 }])
})

test('a clock that is ahead, and a table that keeps all, lose nothing', () => {
  const batch = page('BTCUSDT', 0)
  expect(withoutOldRows(batch, null)).toBe(batch)
  const ahead = withoutOldRows({ ...batch, receivedAt: someTime + 1_000 * dayMs }, keptMs)
  expect(ahead.rows).toHaveLength(32)
})

test.each([
  ['AGAINUSDT', 0, [expect.closeTo(20, 4)]],
  ['ARCHIVEDUSDT', 1, [expect.closeTo(10, 4), expect.closeTo(10, 4)]],
])(
  'all time of %s is claimed again once rows are kept longer; archived days, which stay final: %i',
  async (symbol, days, covered) => {
    const { db } = created.database
    const { rows } = page(symbol, 0) as FillBatch
    const fills = rows.slice(0, 21)
    const key = { category: 'SPOT', symbol } as const
    const asked = { from: someTime - 20 * dayMs, to: someTime + 1 }
    const told = { other: null, reachesTo: asked.from, largest: 100, disorderMs: 0, requestTime: someTime + dayMs }
    await storePastFills(db, key, { asked, fills, ...told })
    const before = new Date(someTime - 9.5 * dayMs)
    await forget(db, 'fills', before)
    await sql`delete from market.fills where symbol = ${symbol} and ts < ${before}`.execute(db)
    if (days > 0)
      await sql`insert into recorder.archived_day (table_name, day) values ('fills', '2026-01-01')`.execute(db)
    const known = await storePastFills(db, key, { asked, fills, ...told })
    expect(known.refusal).toBeNull()
    const now = await stored(symbol)
    expect({ ...now, covered: now.covered.toSorted((a, b) => a - b) }).toMatchObject({ covered, gaps: 0 })
    expect(now.days).toHaveLength(21 - days)
  },
)

test('what retention removed of fills is neither missing nor contradicted where candles of its time are weighed', async () => {
  const { db } = created.database
  const key = { category: 'SPOT', symbol: 'KEPTUSDT' } as const
  const live = (secondsAgo: readonly number[]) => {
    const rows = secondsAgo.map((s) =>
      aFill({ ...key, ts: someTime - s * 1_000, execId: `${s}`, price: '10', size: '1' }),
    )
    return storeBatch(db, batchOf('fills', key, rows, someTime))
  }
  await live([600, 590, 580, 570])
  await live([10, 20, 300, 570, 580])
  const ranges = async (view: 'coverage' | 'gaps') => {
    const { rows } = await sql<{ from: number; to: number }>`
      select from_time as "from", to_time as "to" from ${sql.table(`market.${view}`)}
      where symbol = ${key.symbol} and stream = 'fills' order by 1`.execute(db)
    return rows.map(({ from, to }) => [(from - someTime) / 1_000, (to - someTime) / 1_000])
  }
  const claimed = [[-150, -10]]
  await forget(db, 'fills', new Date(someTime - 150_000))
  expect(await ranges('coverage')).toEqual(claimed)
  // A chunk with younger rows stays: the fill of 570 seconds ago, whose candle tells other prices.
  await sql`delete from market.fills where symbol = ${key.symbol} and ts < ${new Date(someTime - 150_000)}
    and exec_id <> '570'`.execute(db)
  const prices = { open: '5', high: '5', low: '5', close: '5' }
  const candles = [10, 9, 8, 7, 6, 5, 4, 3, 2].map((minute) => {
    const isTraded = minute === 10 || minute === 5
    return aCandle({ ...key, openTime: someTime - minute * 60_000, ...prices, baseVolume: isTraded ? '4' : '0' })
  })
  await storeCandles(db, candles)
  expect({ claimed: await ranges('coverage'), gaps: await ranges('gaps') }).toEqual({ claimed, gaps: [] })
  const { rows } =
    await sql`select from recorder.ledger where symbol = ${key.symbol} and verdict = 'contradicted'`.execute(db)
  expect(rows).toHaveLength(0)
  // Nor is it where the oldest claim begins later.
  const textOf = (from: number, to: number) =>
    multirangeText([{ from: someTime + from * 1_000, to: someTime + to * 1_000 }])
  const of = [key.category, key.symbol] as const
  await callFunction(db, 'recorder.withdraw_claims', 'fills', ...of, '', '', textOf(-150, -100), 'nobody knows')
  await callFunction(db, 'recorder.cover_fills', ...of, textOf(-140, -120), new Date(), 'live')
  expect(await ranges('gaps')).toEqual([
    [-150, -140],
    [-120, -100],
  ])
})

test('what retention removed of fills is in no gap before a page that joins nothing', async () => {
  const { db } = created.database
  const key = { category: 'SPOT', symbol: 'APARTUSDT' } as const
  const show = (times: readonly number[]) => {
    const fills = times.map((ts) => aFill({ ...key, ts, execId: `${ts}` }))
    return storeBatch(db, batchOf('fills', key, fills, Math.max(...times) + 60_000))
  }
  await show([3, 2, 1, 0].map((second) => someTime + second * 1_000))
  const before = new Date(someTime + 630_500)
  await forget(db, 'fills', before)
  await sql`delete from market.fills where symbol = ${key.symbol}`.execute(db)
  await show([1_802, 1_801, 1_800].map((second) => someTime + second * 1_000))
  const { rows } = await sql<{ from: number }>`
    select from_time as "from" from market.gaps where symbol = ${key.symbol}`.execute(db)
  expect(rows).toEqual([{ from: before.getTime() }])
})
