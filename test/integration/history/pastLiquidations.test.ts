import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import { OperationStates } from '../../../src/history/reach.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { repairFutures as wantMissing } from '../../../src/history/repairs.js'
import { claimEvents } from '../../../src/ledger/futures.js'
import { listGaps, loseGaps, recordGap } from '../../../src/ledger/gaps.js'
import type { Batch } from '../../../src/ledger/batch.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { storeBatches } from '../../../src/ledger/storeBatches.js'
import { dayMs, hourMs, minuteMs, type TimeMs } from '../../../src/market/values.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { clientOf, repairFutures, repairInVain, wantedRanges } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument } from '../../support/marketRows.js'

const start = Date.UTC(2026, 10, 20, 3, 30)
const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
let now: TimeMs
let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  now = start
  await test.database.pool.query('truncate market.liquidations, recorder.ledger, recorder.want, recorder.slice')
  const activity = { perHour: { BTCUSDT: 500 } }
  simulator = await startSimulator({ scale: 'tiny', now: () => now, limits: { enforce: false }, activity })
})
afterEach(() => simulator.close())

async function poll(): Promise<Batch> {
  const client = clientOf(simulator.url, 100)
  const { rows, requestTime, receivedAt } = await client.liquidations({ ...key, limit: 100 })
  client.close()
  const what = { stream: 'liquidations', target: key, rejected: [] } as const
  return { ...what, requestTime, receivedAt, rows }
}

const store = (...batches: Batch[]) => storeBatches(test.database.db, batches)

async function repair(): Promise<void> {
  await test.database.pool.query('delete from recorder.want')
  await repairFutures(test, simulator, 'liquidations', () => now)
}

async function stored(): Promise<string[]> {
  const { rows } = await test.database.pool.query<{ row: string }>(
    `select concat_ws(' ', (extract(epoch from ts) * 1000)::bigint, side, price, amount) as row
      from market.liquidations order by 1`,
  )
  return rows.map(({ row }) => row)
}

/** Every liquidation that happened between two times, and is shown by now. */
function truth(from: TimeMs, to = now): string[] {
  const { category, symbol } = key
  const { rows } = simulator.world.liquidations(category, symbol, {
    at: now,
    cursor: null,
    limit: 1_000_000,
    isFromOldest: false,
  })
  const between = rows.filter(({ ts }) => Number(ts) >= from && Number(ts) < to)
  return between.map(({ ts, side, price, amount }) => `${ts} ${side} ${price} ${amount}`).toSorted()
}

const gaps = () => listGaps(test.database.db, { streams: ['liquidations'] })
const coverage = async () => (await test.database.pool.query('select from market.coverage')).rowCount

it('the last three days are there after a first response, equal ones as often as they happened', async () => {
  await store(await poll())
  await repair()
  // What leaves the history within an hour is not asked for.
  const since = now - 3 * dayMs + hourMs
  const all = truth(since)
  expect(all.length).toBeGreaterThan(300)
  expect(new Set(all).size).toBeLessThan(all.length)
  expect((await stored()).filter((text) => text >= String(since))).toEqual(all)
  expect(await coverage()).toBe(1)
  expect(await gaps()).toEqual([])
})

it('responses that are stored again, together and in any order, add none', async () => {
  const batches: Batch[] = []
  for (let polled = 0; polled < 5; polled++) {
    batches.push(await poll())
    now += 10 * minuteMs
  }
  await store(...batches)
  const first = await stored()
  // Of the oldest moment the response shows a part.
  const oldest = Number(first[0]?.split(' ')[0]) + 1
  const inside = first.filter((row) => Number(row.split(' ')[0]) >= oldest)
  expect(inside).toEqual(truth(oldest, now - 10 * minuteMs - 4_000 + 1))
  await store(...batches.toReversed())
  await store(...batches)
  expect(await stored()).toEqual(first)
  expect(await gaps()).toEqual([])
})

it('responses that do not meet leave a gap, which pages fill until they meet what is stored', async () => {
  await store(await poll())
  const before = (await stored()).length
  now += 20 * hourMs
  const newest = await poll()
  await store(newest)
  expect((await stored()).length).toBe(before + newest.rows.length)
  expect(await gaps()).toMatchObject([{ state: 'open' }])
  await repair()
  expect((await gaps()).map(({ state }) => state)).toEqual(['repaired'])
  // What leaves the history within an hour is not asked for.
  const since = now - 3 * dayMs + hourMs
  const kept = (await stored()).filter((row) => Number(row.split(' ')[0]) >= since)
  expect(kept).toEqual(truth(since))
})

it('what is older than three days is lost', async () => {
  await store(await poll())
  now += 4 * dayMs
  await store(await poll())
  await repair()
  const found = await gaps()
  expect(found.map(({ state }) => state).filter((state) => state !== 'repaired')).toEqual(['open'])
  now += 3 * dayMs
  await store(await poll())
  await repair()
  expect((await gaps()).map(({ state }) => state)).toContain('lost')
  const lost = (await gaps()).filter(({ state }) => state === 'lost')
  for (const { range } of lost) expect(range.to).toBeLessThanOrEqual(now - 3 * dayMs)
})

const ends = async () =>
  (await test.database.pool.query<object>('select from_time, to_time from market.coverage order by 1')).rows

it('an empty response proves nothing', async () => {
  const empty = { stream: 'liquidations', target: key, rows: [], rejected: [] } as const
  await store({ ...empty, requestTime: now, receivedAt: now })
  expect(await coverage()).toBe(0)
  await store(await poll())
  const before = await ends()
  await store({ ...empty, requestTime: now + dayMs, receivedAt: now + dayMs })
  expect(await ends()).toEqual(before)
})

it('a gap that is filled in part was found when the whole was, and is no new one', async () => {
  const { db, pool } = test.database
  const series = { stream: 'liquidations', ...key, type: '', interval: '' } as const
  const minute = (from: number, to: number) => [{ from: start + from * minuteMs, to: start + to * minuteMs }]
  const claim = (from: number, to: number) => claimEvents(db, series, minute(from, to), 'away')
  expect(await claim(0, 10)).toBe(0)
  expect(await claim(40, 50)).toBe(1)
  await pool.query(`update recorder.ledger set noted_at = $1 where verdict = 'missing'`, [new Date(start)])
  expect(await claim(10, 20)).toBe(0)
  expect(await claim(30, 35)).toBe(0)
  const left = [...minute(20, 30), ...minute(35, 40)].map((range) => ({ range, detectedAt: start, state: 'open' }))
  expect((await gaps()).toSorted((a, b) => a.range.from - b.range.from)).toMatchObject(left)
  await loseGaps(db, 'liquidations', 'infinity')
  expect(await claim(20, 25)).toBe(0)
  expect(await claim(35, 40)).toBe(0)
  // Nothing came to the other one: nothing was missing in it.
  expect(await gaps()).toMatchObject([{ state: 'lost', range: minute(25, 30)[0], detectedAt: start }])
})

it('a gap that is filled in parts is repaired in parts, which become one', async () => {
  const { db } = test.database
  const series = { stream: 'liquidations', ...key, type: '', interval: '' } as const
  const minute = (from: number, to: number) => ({ from: start + from * minuteMs, to: start + to * minuteMs })
  const come = (at: number) =>
    test.database.pool.query(
      `insert into market.liquidations (category, symbol, ts, side, price, amount, occurrence, received_at)
       values ('USDT-FUTURES', 'BTCUSDT', $1, 'buy', 1, 1, 1, now())`,
      [new Date(start + at * minuteMs)],
    )
  const sorted = async () => (await gaps()).toSorted((a, b) => a.range.from - b.range.from)
  const claim = (from: number, to: number) => claimEvents(db, series, [minute(from, to)], 'away')
  await claim(0, 10)
  await claim(40, 50)
  await come(35)
  await claim(30, 40)
  await claim(25, 30)
  expect(await sorted()).toMatchObject([
    { state: 'open', range: minute(10, 25) },
    { state: 'repaired', range: minute(30, 40) },
  ])
  await come(22)
  await claim(20, 25)
  await come(12)
  await claim(10, 20)
  expect(await sorted()).toMatchObject([
    { state: 'repaired', range: minute(10, 25) },
    { state: 'repaired', range: minute(30, 40) },
  ])
})

it('a gap that no claim touches stays when later time is claimed', async () => {
  const { db } = test.database
  const series = instrumentStream('liquidations', key)
  const hoursAgo = (from: number, to: number) => ({ from: start - from * hourMs, to: start - to * hourMs })
  await recordGap(db, { ...series, range: hoursAgo(60, 30), reason: 'the service refused it' })
  expect(await claimEvents(db, series, [hoursAgo(3, 2)], 'away')).toBe(0)
  expect(await claimEvents(db, series, [hoursAgo(1, 0)], 'away')).toBe(1)
  expect(await gaps()).toMatchObject([
    { range: hoursAgo(60, 30), reason: 'the service refused it', state: 'open' },
    { range: hoursAgo(2, 1), reason: 'away' },
  ])
})

it('a new gap is asked for at once while an older one waits that no request could fill', async () => {
  const { db } = test.database
  const series = instrumentStream('liquidations', key)
  const hoursAgo = (from: number, to: number) => ({ from: start - from * hourMs, to: start - to * hourMs })
  const away = hoursAgo(2, 1)
  await claimEvents(db, series, [hoursAgo(60, 2), hoursAgo(1, 0)], 'away')
  await repairInVain(db, series, [hoursAgo(71, 60)], 4)
  const streams = [{ name: 'liquidations', keptMs: null }] as const
  const states = new OperationStates(systemClock)
  await wantMissing({ db, streams, isOwn: () => true, states }, start)
  expect(await wantedRanges(db, key.symbol)).toEqual([away])
})

it('new ones in a claimed silence end it, back to the newest one that was stored before', async () => {
  const minute = (minutes: number) => start + minutes * minuteMs
  const show = (minutes: readonly number[]) => {
    const row = { ...key, side: 'buy', price: '1', amount: '1', receivedAt: start, extra: {} } as const
    const times = { requestTime: minute(600), receivedAt: minute(600) }
    const rows = minutes.map((minutes) => ({ ...row, ts: minute(minutes) + 137 }))
    return store({ stream: 'liquidations', target: key, rejected: [], ...times, rows })
  }
  await show([30, 20, 10])
  const series = instrumentStream('liquidations', key)
  await test.database.db
    .transaction()
    .execute((trx) => claimEvents(trx, series, [{ from: minute(29), to: minute(590) }], null))
  await show([550, 520, 500])
  await show([550, 520, 500])
  expect(await gaps()).toMatchObject([{ range: { from: minute(30) + 137, to: minute(500) + 138 } }])
  expect(await coverage()).toBe(2)
  await show([520, 510, 500, 30, 20])
  expect([await coverage(), await gaps()]).toMatchObject([1, [{ state: 'repaired' }]])
})

it('time before a future was launched is not asked for', async () => {
  const { db } = test.database
  const hoursAgo = (from: number, to: number) => ({ from: start - from * hourMs, to: start - to * hourMs })
  const future = { category: 'USDT-FUTURES', symbol: 'NEWUSDT' } as const
  const { from: launchTime } = hoursAgo(10, 0)
  await recordInstruments(db, future.category, [anInstrument({ ...future, launchTime })], launchTime)
  await claimEvents(db, instrumentStream('liquidations', future), [hoursAgo(9, 1)], null)
  const streams = [{ name: 'liquidations', keptMs: null }] as const
  await wantMissing({ db, streams, isOwn: () => true, states: new OperationStates(systemClock) }, start)
  expect(await wantedRanges(db, future.symbol)).toEqual([hoursAgo(10, 9)])
})
