import { pino } from 'pino'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
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

test('a page does not wait for long, and not for more rows than make it worth while', async () => {
  const { writer, clock } = createWriter()
  await writer.add(page(0, 100))
  await clock.advance(999)
  expect(await transactions()).toEqual([])
  await clock.advance(1)
  await expect.poll(transactions).toEqual([100])
  for (const index of [1, 2, 3, 4, 5]) await writer.add(page(index * 100, 100))
  await expect.poll(transactions).toEqual([100, 500])
})

test('what cannot be stored is told to whoever adds the next page, or ends', async () => {
  const { writer } = createWriter()
  const { db } = created.database
  await sql`alter table market.candles rename to candles_elsewhere`.execute(db)
  try {
    await writer.add(page(0, 1))
    await expect(writer.finish()).rejects.toThrow('candles')
  } finally {
    await sql`alter table market.candles_elsewhere rename to candles`.execute(db)
  }
})
