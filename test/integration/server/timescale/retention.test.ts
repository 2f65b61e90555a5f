import type pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Fill, rejectedRow } from '../../../../src/market/rows.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { verify } from '../../../../src/ledger/verify.js'
import { migrateToLatest } from '../../../../src/db/migrate.js'
import { listGaps, recordGap } from '../../../../src/ledger/gaps.js'
import { addCoverage, coveredRanges, missingRanges } from '../../../support/coverage.js'
import { insertFills } from '../../../support/insertFills.js'
import { insertRejectedRows } from '../../../../src/ledger/rejectedRows.js'
import { reconcile } from '../../../../src/server/timescale/reconcile.js'
import { forget } from '../../../../src/ledger/forget.js'
import { applyRetention } from '../../../../src/server/timescale/retention.js'
import { canCreateExtension, hasHypertables } from '../../../../src/server/timescale/server.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { testStorage } from '../../../support/databaseServer.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
/** The last midnight: chunks of a day end where the retention does. */
const now = Math.floor(Date.now() / dayMs) * dayMs
const settings = { ...testStorage, fills: { ...testStorage.fills, retentionDays: 10 } }

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(async () => created.drop())

const daysAgo = (days: number) => now - days * dayMs
const symbols = ['BTCUSDT', 'ETHUSDT']
const fills = symbols.flatMap((symbol) =>
  Array.from({ length: 20 }, (_, day): Fill => aFill({ symbol, ts: daysAgo(day) - 3_600_000, execId: `${day}` })),
)

async function countBefore(days: number): Promise<number> {
  const query = 'select count(*) from market.fills where ts < $1'
  const { rows } = await created.database.pool.query<{ count: number }>(query, [new Date(daysAgo(days))])
  return Number(rows[0]?.count)
}

it('removes what is older than the configuration keeps, and nothing else', async () => {
  const { db } = created.database
  await insertFills(db, fills)
  await upsertCandles(db, [aCandle({ openTime: daysAgo(400) })])
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(db, series, [{ from: daysAgo(20), to: now }])
  await reconcile(db, settings)

  const { removed: lines } = await applyRetention(db, forget, settings, now)
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatch(/^removed (20 rows|10 chunks) of market\.fills from before /)
  expect(lines[0]).toContain(new Date(daysAgo(10)).toISOString())

  const kept = await db.selectFrom('market.fills').select(['symbol', 'ts']).orderBy('symbol').orderBy('ts').execute()
  const expected = fills.filter(({ ts }) => ts >= daysAgo(10)).map(({ symbol, ts }) => ({ symbol, ts }))
  expect(kept).toEqual(expected.toSorted((a, b) => a.symbol.localeCompare(b.symbol) || a.ts - b.ts))
  expect(kept).toHaveLength(20)
  expect(await db.selectFrom('market.candles').select('symbol').execute()).toHaveLength(1)
  expect(await missingRanges(db, series, { from: daysAgo(20), to: now })).toEqual([
    { from: daysAgo(20), to: daysAgo(10) },
  ])
  expect(await applyRetention(db, forget, settings, now)).toEqual({ removed: [], kept: [] })
})

it('leaves no claim of rows that a backfill stores while old ones are removed', async () => {
  const { db } = created.database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'LATEUSDT', type: '', interval: '' } as const
  let isStored = false
  await applyRetention(
    db,
    async (own, stream, before) => {
      await forget(own, stream, before)
      if (stream !== 'fills' || isStored) return
      isStored = true
      await insertFills(db, [aFill({ symbol: 'LATEUSDT', ts: daysAgo(12), execId: 'late' })])
      await addCoverage(db, series, [{ from: daysAgo(12), to: daysAgo(12) + 1_000 }])
    },
    settings,
    now,
  )
  expect(await countBefore(10)).toBe(0)
  expect(await coveredRanges(db, series)).toEqual([])
})

/** Makes the removal of fills of the newest of three days fail: as a lock of its chunk does, or a full disk. */
async function failTheLast(reader: pg.PoolClient): Promise<void> {
  const { db, pool } = created.database
  if (await hasHypertables(db)) {
    await reader.query('begin')
    const read = 'select from market.fills where ts >= $1 and ts < $2'
    await reader.query(read, [new Date(daysAgo(12)), new Date(daysAgo(11))])
    return
  }
  await pool.query(`
    create sequence public.deletes;
    create function public.fail() returns trigger language plpgsql as $$
      begin if nextval('public.deletes') = 3 then raise 'lock timeout'; end if; return null; end $$;
    create trigger fail before delete on market.fills for each statement execute function public.fail()`)
}

it('leaves no claim of such rows where a later statement fails', async () => {
  const { db, pool } = created.database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'LATEUSDT', type: '', interval: '' } as const
  const rows = [12, 13, 14].flatMap((age) =>
    Array.from({ length: 12_000 }, (_, i) =>
      aFill({ symbol: 'LATEUSDT', ts: daysAgo(age) + i, execId: `${age}-${i}` }),
    ),
  )
  let isStored = false
  const reader = await pool.connect()
  try {
    const { kept } = await applyRetention(
      db,
      async (own, stream, before) => {
        await forget(own, stream, before)
        if (stream !== 'fills' || isStored) return
        isStored = true
        await insertFills(db, rows)
        await addCoverage(db, series, [{ from: daysAgo(14), to: daysAgo(12) + 12_000 }])
        await failTheLast(reader)
      },
      settings,
      now,
    )
    expect(kept).toEqual([expect.stringMatching(/^market\.fills: .*lock timeout/)])
    expect(await coveredRanges(db, series)).toEqual([])
  } finally {
    reader.release(true)
    await pool.query('drop function if exists public.fail() cascade')
  }
  await applyRetention(db, forget, settings, now)
  expect(await countBefore(10)).toBe(0)
})

it('removes more rows than one statement does', async () => {
  const { db } = created.database
  await insertFills(
    db,
    Array.from({ length: 25_000 }, (_, i) => aFill({ ts: daysAgo(12), execId: `many-${i}` })),
  )
  await applyRetention(db, forget, settings, now)
  expect(await countBefore(10)).toBe(0)
})

it('keeps at most what somebody reads just now, and removes older rows and those of other tables', async () => {
  const { db, pool } = created.database
  await insertFills(db, fills)
  await upsertCandles(db, [aCandle({ openTime: daysAgo(400) })])
  const old = { ...settings, candles: { ...testStorage.candles, retentionDays: 100 } }
  const reader = await pool.connect()
  try {
    await reader.query('begin')
    const read = 'select from market.fills where ts >= $1 and ts < $2'
    await reader.query(read, [new Date(daysAgo(11)), new Date(daysAgo(10))])
    const { kept } = await applyRetention(db, forget, old, now)
    const isHypertable = await hasHypertables(db)
    expect(kept).toEqual(isHypertable ? [expect.stringMatching(/^market\.fills: .*lock timeout/)] : [])
    expect(await countBefore(11)).toBe(0)
    expect(await countBefore(10)).toBe(isHypertable ? symbols.length : 0)
    expect(await db.selectFrom('market.candles').select('symbol').execute()).toEqual([])
  } finally {
    reader.release(true)
  }
  expect((await applyRetention(db, forget, old, now)).kept).toEqual([])
  expect(await countBefore(10)).toBe(0)
})

it('removes rows where the extension has come, and the next start has not made chunks of the tables yet', async () => {
  const plain = await createEmptyDatabase()
  try {
    const { db, pool } = plain.database
    await migrateToLatest(plain.database)
    if (await canCreateExtension(db)) await pool.query('create extension timescaledb schema public')
    await insertFills(db, fills)
    const { removed, kept } = await applyRetention(db, forget, settings, now)
    expect(removed).toEqual([expect.stringMatching(/^removed 20 rows of market\.fills/)])
    expect(kept).toEqual([])
  } finally {
    await plain.drop()
  }
})

it('keeps everything when nothing is configured', async () => {
  const { db } = created.database
  await insertFills(db, [aFill({ ts: daysAgo(1000) })])
  expect(await applyRetention(db, forget, testStorage, now)).toEqual({ removed: [], kept: [] })
  expect(await countBefore(900)).toBe(1)
})

it('removes rejected rows that have not come again for as long as the configuration says', async () => {
  const { db } = created.database
  const request = { operation: 'fills', parameters: {} }
  const [old, again, fresh] = ['old', 'again', 'fresh'].map((text) => rejectedRow(request, 'a test', text))
  await insertRejectedRows(
    db,
    [old, again].filter((row) => row !== undefined),
    daysAgo(40),
  )
  await insertRejectedRows(
    db,
    [again, fresh].filter((row) => row !== undefined),
    daysAgo(29),
  )
  expect((await applyRetention(db, forget, testStorage, now)).removed).toEqual([
    `removed 1 of recorder.rejected_row from before ${new Date(daysAgo(30)).toISOString()}`,
  ])
  const kept = await db.selectFrom('recorder.rejected_row').select('raw').orderBy('raw').execute()
  expect(kept.map(({ raw }) => raw)).toEqual(['again', 'fresh'])
})

it('forgets gaps of the time that is not kept', async () => {
  const { db } = created.database
  const key = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  const gap = (from: number, to: number) => recordGap(db, { ...key, range: { from, to }, reason: 'x', verdict: 'lost' })
  await gap(daysAgo(11), daysAgo(10))
  await gap(daysAgo(11), daysAgo(10) + 1)
  await recordGap(db, { ...key, stream: 'tickers', range: { from: daysAgo(11), to: daysAgo(10) }, reason: 'x' })
  await applyRetention(db, forget, settings, now)
  const left = (await listGaps(db)).map(({ stream, range }) => `${stream} ${range.to}`)
  expect(left.toSorted()).toEqual([`fills ${daysAgo(10) + 1}`, `tickers ${daysAgo(10)}`])
})

it('claims nothing of a candle that opens before and closes after the bound, so that what is left is sound', async () => {
  const { db } = created.database
  const at = now - dayMs + 14 * 3_600_000 + 23 * 60_000 + 30_000
  const bound = at - 3 * dayMs
  // Days that begin at 16:00 UTC, as those of the service were seen to.
  const series = [
    ['1m', 60_000, bound - 30_000],
    ['1H', 3_600_000, bound - 23 * 60_000 - 30_000],
    ['1D', dayMs, bound - 22 * 3_600_000 - 23 * 60_000 - 30_000],
  ] as const
  for (const [interval, lengthMs, current] of series) {
    const openTimes = [-3, -2, -1, 0, 1].map((index) => current + index * lengthMs)
    await upsertCandles(
      db,
      openTimes.map((openTime) => aCandle({ symbol: 'CUTUSDT', interval, openTime })),
    )
    const key = { stream: 'candles', category: 'SPOT', symbol: 'CUTUSDT', type: 'market', interval } as const
    await addCoverage(db, key, [{ from: current - 3 * lengthMs, to: current + 2 * lengthMs }])
  }
  const kept = { ...testStorage, candles: { ...testStorage.candles, retentionDays: 3 } }
  for (let time = 0; time < 2; time++) await applyRetention(db, forget, kept, at)

  for (const [interval, lengthMs, current] of series) {
    const key = { stream: 'candles', category: 'SPOT', symbol: 'CUTUSDT', type: 'market', interval } as const
    expect(await coveredRanges(db, key)).toEqual([{ from: current + lengthMs, to: current + 2 * lengthMs }])
  }
  for await (const { check, disagreements } of verify(db, ({ symbol }) => symbol === 'CUTUSDT', bound)) {
    // The candles are made up, and do not add up.
    if (!check.startsWith('hours and days')) expect(disagreements, check).toEqual([])
  }
})
