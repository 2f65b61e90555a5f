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
beforeEach(() => sql`truncate market.candles, recorder.coverage`.execute(created.database.db))

function writerWith(pagesUnderWay: number) {
  const clock = createFakeClock()
  const signal = new AbortController().signal
  const logger = pino({ level: 'silent' })
  const under = { way: pagesUnderWay }
  const writer = new CandleWriter(created.database.db, {
    series,
    clock,
    logger,
    signal,
    pagesUnderWay: () => under.way,
  })
  return { clock, writer, under }
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

test('pages wait for others that are under way, and are stored with them', async () => {
  const { writer } = writerWith(3)
  const stored = [writer.store(page(0, 100)), writer.store(page(100, 100))]
  expect(await transactions()).toEqual([])
  await Promise.all([...stored, writer.store(page(200, 50))])
  expect(await transactions()).toEqual([250])
  expect(writer.counts.inserted).toBe(250)
})

test('but not for long, and not for more rows than make it worth while', async () => {
  const { writer, clock } = writerWith(16)
  const first = writer.store(page(0, 100))
  await clock.advance(499)
  expect(await transactions()).toEqual([])
  await clock.advance(1)
  await first
  expect(await transactions()).toEqual([100])
  await Promise.all([1, 2, 3, 4, 5].map((index) => writer.store(page(index * 100, 100))))
  expect(await transactions()).toEqual([100, 500])
})

test('what is stored while others wait is told to each as it is committed', async () => {
  const { writer, under } = writerWith(1)
  await writer.store(page(0, 1))
  under.way = 2
  await Promise.all([writer.store(page(1, 1)), writer.store(page(2, 1))])
  await writer.idle()
  expect(await transactions()).toEqual([1, 2])
})

test('a page waits no longer for others that will bring nothing', async () => {
  const { writer, under } = writerWith(2)
  const stored = writer.store(page(0, 10))
  under.way = 1
  writer.lookAgain()
  await stored
  expect(await transactions()).toEqual([10])
})
