import { pino } from 'pino'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { CandleWriter } from '../../../src/history/candleWriter.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { createFakeClock } from '../../support/fakeClock.js'
import { aCandle, someTime } from '../../support/marketRows.js'

const minuteMs = 60_000
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())
beforeEach(() => sql`truncate market.candles, recorder.ledger`.execute(created.database.db))

function createWriter() {
  const clock = createFakeClock()
  const signal = new AbortController().signal
  const logger = pino({ level: 'silent' })
  const writer = new CandleWriter(created.database.db, {
    series,
    clock,
    logger,
    signal,
  })
  return { clock, writer }
}

/** Candles of minutes from here on. */
function page(minute: number, count: number) {
  const candles = Array.from({ length: count }, (_, index) =>
    aCandle({ openTime: someTime + (minute + index) * minuteMs }),
  )
  return { candles, silence: [], rejected: [], requestTime: someTime, receivedAt: someTime }
}

/** Minutes stored by each transaction. */
async function transactions(): Promise<number[]> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from market.candles group by xmin order by min(open_time)`.execute(
    created.database.db,
  )
  return rows.map(({ count }) => count)
}

test('pages are stored together, the last ones when there will be no other', async () => {
  const { writer } = createWriter()
  await writer.add(page(0, 100))
  await writer.add(page(100, 100))
  expect(await transactions()).toEqual([])
  await writer.add(page(200, 50))
  await writer.finish()
  expect(await transactions()).toEqual([250])
  expect(writer.counts.inserted).toBe(250)
})

test('pages with enough rows are stored while the next ones come', async () => {
  const { writer } = createWriter()
  for (const index of [0, 1, 2, 3]) await writer.add(page(index * 100, 100))
  expect(await transactions()).toEqual([])
  await writer.add(page(400, 100))
  await expect.poll(transactions).toEqual([500])
  for (const start of [500, 1500, 2500]) await writer.add(page(start, 1000))
  await writer.finish()
  expect(await transactions()).toEqual([500, 1000, 1000, 1000])
  expect(writer.counts.inserted).toBe(3500)
})

test('a page that comes a second after the oldest waiting one is stored with it', async () => {
  const { writer, clock } = createWriter()
  await writer.add(page(0, 10))
  await clock.advance(999)
  await writer.add(page(10, 10))
  expect(await transactions()).toEqual([])
  await clock.advance(1)
  await writer.add(page(20, 10))
  await expect.poll(transactions).toEqual([30])
  // The next pages wait for each other again.
  await writer.add(page(30, 10))
  await writer.add(page(40, 10))
  await writer.finish()
  expect(await transactions()).toEqual([30, 20])
})

test('a later page overwrites an earlier one', async () => {
  const { writer } = createWriter()
  const corrected = { ...page(0, 1), candles: [aCandle({ openTime: someTime, close: '10.5' })] }
  await writer.add(page(0, 500))
  await writer.add(corrected)
  await writer.finish()
  const { rows } = await sql<{ close: string }>`
    select close from market.candles where open_time = ${new Date(someTime)}`.execute(created.database.db)
  expect(rows.map(({ close }) => Number(close))).toEqual([10.5])
})

test('a write that fails is told to the next call, and no later page is stored', async () => {
  const { writer } = createWriter()
  const { db } = created.database
  await sql`alter table market.candles rename to candles_elsewhere`.execute(db)
  try {
    await writer.add(page(0, 500))
    await expect(writer.add(page(500, 500))).rejects.toThrow('candles')
  } finally {
    await sql`alter table market.candles_elsewhere rename to candles`.execute(db)
  }
  await expect(writer.finish()).rejects.toThrow('candles')
  expect(await transactions()).toEqual([])
  expect(writer.counts.inserted).toBe(0)
})

test('pages that a full disk refuses are stored once there is room', async () => {
  const { writer, clock } = createWriter()
  const { db } = created.database
  await sql`create function refuse() returns trigger language plpgsql as
    $$ begin raise exception 'No space left on device' using errcode = '53100'; end $$`.execute(db)
  await sql`create trigger refuse before insert on market.candles execute function refuse()`.execute(db)
  await writer.add(page(0, 1))
  const finished = writer.finish()
  try {
    await vi.waitUntil(() => clock.pendingSleeps > 0, { timeout: 120_000 })
  } finally {
    await sql`drop function refuse cascade`.execute(db)
  }
  await clock.advance(250)
  await finished
  expect(await transactions()).toEqual([1])
  expect(writer.counts.inserted).toBe(1)
})
