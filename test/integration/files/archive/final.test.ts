import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { planSeries, wantsOf } from '../../../../src/history/request.js'
import type { Batch } from '../../../../src/ledger/batch.js'
import { forget } from '../../../../src/ledger/forget.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { foldRestatement, lastRevision } from '../../../../src/ledger/restatements.js'
import { storeBatch } from '../../../../src/ledger/storeBatches.js'
import { storePastFills } from '../../../../src/ledger/storePastFills.js'
import { insertWants, wantStates } from '../../../../src/ledger/wants.js'
import { candleStream } from '../../../../src/db/series.js'
import { reconcile } from '../../../../src/server/timescale/reconcile.js'
import { applyRetention } from '../../../../src/server/timescale/retention.js'
import { archiveOfTest } from '../../../support/archiveOfTest.js'
import { archiveAll, rowsOf } from '../../../support/archives.js'
import { batchOf } from '../../../support/batches.js'
import { testStorage } from '../../../support/databaseServer.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs
const kept = 4
const old = ['fills', 'candles', 'funding_rates', 'liquidations'].map((name) => ({ name, retentionDays: kept }))
const instrument = { category: 'USDT-FUTURES', symbol: 'QUIETUSDT' } as const
const daily = { ...instrument, type: 'market', interval: '1D' } as const

const own = archiveOfTest()

const db = () => own.created.database.db
const store = (batch: Batch) => storeBatch(db(), batch)
/** On TimescaleDB a chunk leaves whole, and none of the usual size is as old as a test wants. */
const useChunksOfADay = () =>
  reconcile(db(), {
    ...testStorage,
    candles: { ...testStorage.candles, chunkHours: 24 },
    funding_rates: { ...testStorage.funding_rates, chunkHours: 24 },
    liquidations: { ...testStorage.liquidations, chunkHours: 24 },
  })
const run = () => archiveAll(own.created.database, own.archive.target, now)
/** Archives everything, and removes what is old. */
async function leave(): Promise<void> {
  await run()
  const { kept: stay } = await removeArchived(own.created.database, own.archive.target, old, { now: () => now })
  expect(stay).toEqual([])
}
async function count(table: string, where = 'true'): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from ${sql.table(table)} where ${sql.raw(where)}`.execute(db())
  return rows[0]?.n ?? Number.NaN
}
const oldRows = (table: string, column = 'ts') =>
  count(`market.${table}`, `${column} < '${new Date(now - kept * dayMs).toISOString()}'`)
/** A run of the archive finds nothing to write, and the archive has what it had. */
async function expectNothingDue(): Promise<void> {
  expect(await count('recorder.changed_day')).toBe(0)
  expect(await run()).toMatchObject({ written: [], due: [] })
}

const fill = (ts: number, changes: object = {}) => aFill({ ...instrument, ts, execId: `at ${ts}`, ...changes })
const pageOf = (rows: readonly ReturnType<typeof fill>[], requested = now) =>
  batchOf('fills', instrument, rows.toReversed(), requested)
const quiet = [1, 2, 2.5, 3].map((day) => from + day * dayMs)

test('a page of a quiet instrument shows its old fills for months, which changes and costs nothing', async () => {
  await store(
    pageOf(
      quiet.map((ts) => fill(ts)),
      from + 3.1 * dayMs,
    ),
  )
  await leave()
  expect(await oldRows('fills')).toBe(0)
  const before = await rowsOf(own.archive.target, 'fills')
  const page = quiet.map((ts) => fill(ts, { receivedAt: now, price: '7' }))
  expect(await store(pageOf(page))).toMatchObject({ inserted: 0, rejected: 0, gapsFound: 0, remarks: [] })
  const fresh = fill(now - hourMs)
  expect(await store(pageOf([...page, fresh]))).toMatchObject({ inserted: 1, gapsFound: 0 })
  // The oldest one that the page kept for its place is the mark that the next fill follows on from.
  expect(await store(pageOf([fill(quiet[3] as number), fresh, fill(now - minuteMs)]))).toMatchObject({ inserted: 1 })
  expect(await oldRows('fills')).toBe(0)
  expect(await count('recorder.ledger', `stream = 'fills' and verdict in ('missing', 'lost')`)).toBe(0)
  const { rows } = await sql<{ whole: boolean }>`
    select range_agg(r) @> tstzrange(${new Date(from + dayMs + 1_000)}, ${new Date(now - minuteMs)}) as whole
    from recorder.ledger cross join lateral unnest(ranges) as r
    where stream = 'fills' and verdict in ('recorded', 'final')`.execute(db())
  expect(rows).toEqual([{ whole: true }])
  await run()
  await store(pageOf([...page, fresh]))
  await expectNothingDue()
  expect(await rowsOf(own.archive.target, 'fills')).toEqual(expect.arrayContaining(before))
})

test('a gap is found after all rows of an instrument have left', async () => {
  await store(
    pageOf(
      quiet.map((ts) => fill(ts)),
      from + 3.1 * dayMs,
    ),
  )
  await leave()
  await store(pageOf([fill(now - 2 * hourMs), fill(now - hourMs)]))
  const gaps = await sql<{ from: number; to: number }>`
    select from_time as "from", to_time as "to" from market.gaps where stream = 'fills'`.execute(db())
  expect(gaps.rows).toEqual([{ from: (quiet[3] as number) + 1, to: now - 2 * hourMs + 1_000 }])
})

test('a history changes nothing that is final, and fills a gap over rows that have left', async () => {
  // The fills of day 2 join nothing, so they prove only what is between them.
  await store(
    pageOf(
      quiet.slice(0, 2).map((ts) => fill(ts)),
      from + 2.1 * dayMs,
    ),
  )
  await store(
    pageOf(
      [2.5, 2.6, 3].map((day) => fill(from + day * dayMs)),
      from + 3.1 * dayMs,
    ),
  )
  expect(await count('market.gaps', `state = 'open'`)).toBe(1)
  await leave()
  const before = await rowsOf(own.archive.target, 'fills')
  const found = fill(from + 2.2 * dayMs)
  const fills = [1, 2, 2.2, 2.5, 2.6, 3].map((day) => fill(from + day * dayMs, { price: '100.5' }))
  const page = {
    asked: { from, to: from + 3 * dayMs + 1 },
    fills,
    other: null,
    reachesTo: from,
    largest: fills.length,
    disorderMs: 0,
    requestTime: now,
  }
  expect(await storePastFills(db(), instrument, page)).toMatchObject({ inserted: 1, refusal: null })
  expect(await count('market.fills')).toBe(1)
  const states = await sql<{ state: string }>`select state from market.gaps where stream = 'fills'`.execute(db())
  expect(states.rows).toEqual([{ state: 'repaired' }])
  await leave()
  const after = await rowsOf(own.archive.target, 'fills')
  expect(after).toHaveLength(before.length + 1)
  expect(after).toEqual(expect.arrayContaining(before))
  expect(after).toContainEqual(expect.objectContaining({ exec_id: found.execId }))
  await expectNothingDue()
})

test('candles that are final stay, whatever a response, a spool, a repair or a review gives', async () => {
  await useChunksOfADay()
  const candles = (change: object = {}) =>
    Array.from({ length: 9 }, (__, day) => aCandle({ ...daily, openTime: from + day * dayMs, ...change }))
  const response = (change: object = {}) =>
    batchOf('candles', { ...daily, settleMs: 0, limit: 9 }, candles(change), now)
  await store(response())
  await leave()
  expect(await oldRows('candles', 'open_time')).toBe(0)
  const before = await rowsOf(own.archive.target, 'candles')
  for (const batch of [response(), response({ close: '11.5' }), { ...response({ close: '11.7' }), silence: [] }]) {
    expect(await store(batch)).toMatchObject({ inserted: 0 })
    expect(await oldRows('candles', 'open_time')).toBe(0)
  }
  await run()
  await expectNothingDue()
  const after = await rowsOf(own.archive.target, 'candles')
  expect(after.slice(0, 6)).toEqual(before.slice(0, 6))
})

test('many candles that are stored at once leave out those that are final', async () => {
  const minutes = { ...daily, interval: '1m' } as const
  const many = Array.from({ length: 800 }, (__, i) => aCandle({ ...minutes, openTime: from + i * minuteMs }))
  const page = (candles: object[]) => ({ ...batchOf('candles', minutes, candles, now), silence: [] })
  await store(page(many.slice(0, 750)))
  await leave()
  expect(await store(page(many))).toMatchObject({ inserted: 50 })
  expect(await count('market.candles')).toBe(50)
  await leave()
  expect(await rowsOf(own.archive.target, 'candles')).toHaveLength(800)
  expect(await store(page(many))).toMatchObject({ inserted: 0 })
  await expectNothingDue()
})

test('a restatement changes nothing that is final, and begins with the first candle after it', async () => {
  await useChunksOfADay()
  const hourly = { ...daily, interval: '1H' } as const
  const end = from + 9 * dayMs
  const candles = (prices: object) => {
    const opening = (__: unknown, hour: number) => aCandle({ ...hourly, openTime: from + hour * hourMs, ...prices })
    return Array.from({ length: (end - from) / hourMs }, opening)
  }
  const page = (prices: object) => ({ ...batchOf('candles', hourly, candles(prices), now), silence: [] })
  await store(page({ open: '40', high: '48', low: '36', close: '44', baseVolume: '5' }))
  await leave()
  const isFinal = (row: Record<string, unknown>) => Number(row['open_time']) / 1000 < now - kept * dayMs
  const before = (await rowsOf(own.archive.target, 'candles')).filter(isFinal)
  expect(before).toHaveLength((now - kept * dayMs - from) / hourMs)
  const last = await lastRevision(db())
  await store(page({ open: '10', high: '12', low: '9', close: '11', baseVolume: '20' }))
  expect(await foldRestatement(db(), hourly, last)).toEqual({ numerator: 1n, denominator: 4n })
  await leave()
  expect(await oldRows('candles', 'open_time')).toBe(0)
  expect((await rowsOf(own.archive.target, 'candles')).filter(isFinal)).toEqual(before)
  const { rows } = await sql`
    select from_time as "from", to_time as "to" from market.restatements`.execute(db())
  expect(rows).toEqual([{ from: now - kept * dayMs, to: end }])
})

test('settlements and liquidations that are final stay', async () => {
  await useChunksOfADay()
  const rates = Array.from({ length: 27 }, (__, i) => ({
    ...instrument,
    ts: from + 8 * i * hourMs,
    fundingRate: '0.0001',
    intervalHours: null,
    receivedAt: now,
    extra: {},
  }))
  const liquidations = rates.map(({ ts }) => ({
    ...instrument,
    ts,
    side: 'buy',
    price: '1',
    amount: '2',
    receivedAt: now,
    extra: {},
  }))
  const both = async () => {
    await store(batchOf('funding_rates', instrument, rates, now))
    await store(batchOf('liquidations', instrument, liquidations, now))
  }
  await both()
  await leave()
  await both()
  expect([await oldRows('funding_rates'), await oldRows('liquidations')]).toEqual([0, 0])
  expect(await count('recorder.ledger', `verdict in ('missing', 'lost')`)).toBe(0)
  await expectNothingDue()
})

test('nothing wants what is final, also to be read again', async () => {
  await useChunksOfADay()
  const candles = Array.from({ length: 9 }, (__, day) => aCandle({ ...daily, openTime: from + day * dayMs }))
  await store({ ...batchOf('candles', daily, candles, now), silence: [] })
  await leave()
  const end = from + 6 * dayMs
  const request = {
    series: candleStream(daily),
    range: { from, to: from + 9 * dayMs },
    isUrgent: false,
    hasOpenBeginning: false,
  }
  const [planned] = await planSeries(db(), [request], { again: true })
  expect(planned).toMatchObject({ missing: [{ from: end, to: from + 9 * dayMs }], final: [{ from, to: end }] })
  const want = { ...request, kind: 'review', ranges: [request.range], floor: from, again: true } as const
  const [state] = await wantStates(db(), { ids: await insertWants(db(), [want]) })
  expect(state).toMatchObject({ left: 3 })
  expect(wantsOf([{ ...request, missing: [], final: [] }], { kind: 'backfill', again: true })).toEqual([])
  await recordGap(db(), { ...candleStream(daily), range: { from, to: from + 7 * dayMs }, reason: 'nobody knows' })
  const gaps = await sql<{ from: number; to: number }>`
    select from_time as "from", to_time as "to" from market.gaps where stream = 'candles'`.execute(db())
  expect(gaps.rows).toEqual([{ from: end, to: from + 7 * dayMs }])
})

test('a candle that still forms is not archived, and comes when it has closed', async () => {
  const forming = aCandle({ ...daily, openTime: from + dayMs, close: '10.5', isClosed: false })
  const closed = { ...forming, close: '11', isClosed: true }
  const response = (...candles: object[]) => ({ ...batchOf('candles', daily, candles, now), silence: [] })
  await store(
    response(aCandle({ ...daily, openTime: from }), forming, aCandle({ ...daily, openTime: from + 2 * dayMs })),
  )
  await leave()
  expect((await rowsOf(own.archive.target, 'candles')).map((row) => row['close'])).toEqual(['11', '11'])
  await store(response(closed))
  await leave()
  expect(await count('market.candles', 'is_closed')).toBe(0)
  expect(await rowsOf(own.archive.target, 'candles')).toHaveLength(3)
  expect((await rowsOf(own.archive.target, 'candles')).every((row) => row['is_closed'] === 't')).toBe(true)
  expect(await rowsOf(own.archive.target, 'coverage')).toHaveLength(3)
})

test('without an archive, the newest fill that was removed is a mark, and is not stored again', async () => {
  await store(
    pageOf(
      quiet.map((ts) => fill(ts)),
      from + 3.1 * dayMs,
    ),
  )
  const settings = { ...testStorage, fills: { ...testStorage.fills, retentionDays: kept } }
  const remove = () => applyRetention(db(), forget, settings, now)
  await remove()
  expect(await oldRows('fills')).toBe(0)
  const mark = fill(quiet[3] as number, { receivedAt: now })
  expect(await store(pageOf([mark, fill(now - hourMs)]))).toMatchObject({ inserted: 1, gapsFound: 0 })
  await remove()
  expect(await store(pageOf([mark, fill(now - hourMs), fill(now - minuteMs)]))).toMatchObject({ inserted: 1 })
  expect(await oldRows('fills')).toBe(0)
  const { rows } = await sql<{ whole: boolean }>`
    select range_agg(r) @> tstzrange(${new Date(now - kept * dayMs)}, ${new Date(now - minuteMs)}) as whole
    from recorder.ledger cross join lateral unnest(ranges) as r
    where stream = 'fills' and verdict = 'recorded'`.execute(db())
  expect(rows).toEqual([{ whole: true }])
  expect(await count('market.gaps')).toBe(0)
})

test('the first run archives the days that have ended, and nothing of today', async () => {
  const opened = [8, 9, 10].map((day) => from + day * dayMs)
  const candles = opened.map((openTime) => aCandle({ ...daily, interval: '1m', openTime }))
  for (const candle of candles)
    await store({ ...batchOf('candles', { ...daily, interval: '1m' }, [candle], now + hourMs), silence: [] })
  expect(await count('recorder.ledger', `verdict = 'recorded' and not isempty(ranges)`)).toBeGreaterThan(0)
  const { written } = await archiveAll(own.created.database, own.archive.target, now + 2 * hourMs)
  expect(written.filter(({ table }) => table === 'candles').map(({ day }) => day)).toEqual(['2026-03-09', '2026-03-10'])
})
