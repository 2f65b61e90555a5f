import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { instrumentStream } from '../../../../src/db/series.js'
import { appendRows } from '../../../../src/db/writeRows.js'
import { adoptArchive } from '../../../../src/files/archive/adopt.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { storeBatch } from '../../../../src/ledger/storeBatches.js'
import { storeCandles } from '../../../../src/ledger/storeCandles.js'
import { storePastFills } from '../../../../src/ledger/storePastFills.js'
import type { Fill } from '../../../../src/market/rows.js'
import { archiveAll, hintsOf, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { batchOf } from '../../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aBook, aCandle, aFill } from '../../../support/marketRows.js'

const secondMs = 1_000
const daySeconds = 86_400
const start = Date.UTC(2026, 2, 1, 12)
const now = start + 10 * daySeconds * secondMs
const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const

type Db = TestDatabase['database']['db']
let original: TestDatabase
let dump: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  original = await createTestDatabase()
  dump = await createTestDatabase()
  archive = await temporaryArchive()
  for (const { database } of [original, dump])
    await sql`insert into recorder.service (base_url) values ('https://one.example')`.execute(database.db)
})
afterEach(async () => {
  await archive.drop()
  await original.drop()
  await dump.drop()
})

const fill = (second: number) =>
  aFill({ execId: String(second), ts: start + second * secondMs + 500, size: '2', price: '10' })
const candle = (minute: number) =>
  aCandle({ openTime: start + minute * 60_000, baseVolume: '120', open: '10', high: '10', low: '10', close: '10' })

/** Stores fills of these seconds as one response. */
async function storeFills(db: Db, seconds: readonly number[]): Promise<void> {
  const newestFirst = seconds.toSorted((a, b) => b - a)
  const askedAt = start + ((newestFirst[0] ?? 0) + 10) * secondMs
  await storeBatch(db, batchOf('fills', instrument, newestFirst.map(fill), askedAt))
}

/** Those of some seconds that are in a view of a stream. Of gaps, only open ones count. */
async function secondsIn(
  db: Db,
  view: 'coverage' | 'gaps' | 'no_trade',
  seconds: readonly number[],
  stream: 'fills' | 'candles' = 'fills',
): Promise<number[]> {
  const conditions = {
    coverage: sql`stream = ${stream}`,
    gaps: sql`stream = ${stream} and state = 'open'`,
    no_trade: sql`true`,
  }
  const { rows } = await sql<{ from: number; to: number }>`
    select from_time as "from", to_time as "to" from ${sql.table(`market.${view}`)}
    where ${conditions[view]}`.execute(db)
  return seconds.filter((second) => {
    const at = start + second * secondMs
    return rows.some(({ from, to }) => from <= at && at < to)
  })
}

const secondsUntil = (until: number) => Array.from({ length: until + 1 }, (_, second) => second)

/** Stores a page of the history with these fills, newest first, as answer for the time from the oldest to the newest. */
async function storePast(db: Db, fills: readonly Fill[]): Promise<void> {
  const [newest, oldest] = [fills[0]?.ts ?? start, fills.at(-1)?.ts ?? start]
  const asked = { from: oldest, to: newest + 2 * secondMs }
  const requestTime = start + 2 * daySeconds * secondMs
  await storePastFills(db, instrument, {
    asked,
    fills,
    other: null,
    reachesTo: start,
    largest: 1000,
    disorderMs: 0,
    requestTime,
  })
}

/** The gaps of fills that end on the day on which the first fills come or the next, with their states. */
async function gapsOfFirstDay(db: Db) {
  const until = new Date(start + daySeconds * secondMs)
  const { rows } = await sql`
    select from_time as "from", to_time as "to", state from market.gaps
    where stream = 'fills' and to_time < ${until} order by 1`.execute(db)
  return rows
}

/** Archives an original whose history hides a fill that a candle counts. */
async function archiveContradicted(): Promise<readonly Fill[]> {
  const { db } = original.database
  const shown = secondsUntil(200).filter((second) => second !== 130)
  await storeFills(db, shown)
  await storeCandles(db, [candle(0), candle(1), candle(2)])
  const page = shown.toReversed().map(fill)
  await storePast(db, page)
  expect(await secondsIn(db, 'gaps', [100, 130, 190])).toEqual([130])
  await storeFills(db, [3 * daySeconds])
  await archiveAll(original.database, archive.target, now)
  return page
}

test('what a candle counts is missing in a database that adopted the archive, too', async () => {
  const page = await archiveContradicted()
  const { db } = dump.database
  await adoptArchive(db, archive.target)
  await storePast(db, page)
  expect(await secondsIn(db, 'coverage', [130])).toEqual([])
  expect(await gapsOfFirstDay(db)).toEqual([{ from: start + 120_000, to: start + 180_000, state: 'open' }])
})

test('a gap that a candle shows ends in a database that adopted the archive when what it counts is there', async () => {
  const page = await archiveContradicted()
  const { database } = dump
  await adoptArchive(database.db, archive.target)
  await storePast(
    database.db,
    [...page, fill(130)].toSorted((a, b) => b.ts - a.ts),
  )
  expect(await gapsOfFirstDay(database.db)).toEqual([{ from: start + 120_000, to: start + 180_000, state: 'repaired' }])

  const before = await rowsOf(archive.target, 'fills')
  expect((await archiveAll(database, archive.target, now)).problems).toEqual([])
  const added = (await rowsOf(archive.target, 'fills')).filter(
    (row) => !before.some((one) => one['exec_id'] === row['exec_id']),
  )
  expect(added).toMatchObject([{ exec_id: '130' }])
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(before.length + 1)
  const tables = ['fills', 'candles'].map((name) => ({ name, retentionDays: 4 }))
  const { kept } = await removeArchived(database, archive.target, tables, { now: () => now })
  expect(kept).toEqual([])
  const { rows } = await sql`select from market.fills union all select from market.candles`.execute(database.db)
  expect(rows).toEqual([])
})

test.each([[['fills']], [['fills', 'candles']]])(
  'what a candle counts is missing where %j were restored, too',
  async (tables) => {
    const page = await archiveContradicted()
    const { db } = dump.database
    await restoreArchive(dump.database, archive.target, { tables, pointers: await hintsOf(archive.target) })
    await storePast(db, page)
    expect(await secondsIn(db, 'coverage', [100, 130, 190])).toEqual([100, 190])
    const { rows } =
      await sql`select state from market.gaps where stream = 'fills' and to_time < ${new Date(start + daySeconds * secondMs)}`.execute(
        db,
      )
    expect(rows).toEqual([{ state: 'open' }])
  },
)

test('a claim of a dump ends where the archive knows a gap of fills', async () => {
  const [db, adopter] = [original.database.db, dump.database.db]
  const withoutOne = secondsUntil(200).filter((second) => second !== 130)
  for (const each of [db, adopter]) await storeFills(each, withoutOne)
  // Candles that came after the dump contradict the third minute.
  await storeCandles(db, [candle(0), candle(1), candle(2)])
  await archiveAll(original.database, archive.target, now)
  await adoptArchive(adopter, archive.target)

  expect(await secondsIn(adopter, 'coverage', [100, 130, 190])).not.toContain(130)
  expect(await secondsIn(adopter, 'gaps', [100, 130, 190])).toEqual([130])
  // A page that brings no row repairs nothing.
  await storeFills(
    adopter,
    withoutOne.filter((second) => second >= 110),
  )
  const { rows } = await sql`select from market.gaps where state = 'repaired'`.execute(adopter)
  expect(rows).toEqual([])
})

test('silence of a dump ends where the archive knows a gap of candles', async () => {
  const [db, adopter] = [original.database.db, dump.database.db]
  const minutes = { ...instrument, type: 'market', interval: '1m', settleMs: 0, limit: 100 } as const
  const silent = [0, 1, 4, 5].map(candle)
  for (const each of [db, adopter]) await storeBatch(each, batchOf('candles', minutes, silent, start + 3_600_000))
  // After the dump, fills come of a minute that was silent.
  await storeFills(
    db,
    secondsUntil(150).filter((second) => second >= 100),
  )
  await storeFills(db, [3 * daySeconds])
  await archiveAll(original.database, archive.target, now)
  await adoptArchive(adopter, archive.target)

  const inMinutes = [130, 200]
  expect(await secondsIn(adopter, 'gaps', inMinutes, 'candles')).toEqual([130])
  expect(await secondsIn(adopter, 'coverage', inMinutes, 'candles')).not.toContain(130)
  expect(await secondsIn(adopter, 'no_trade', inMinutes)).not.toContain(130)
})

test('the time between an adopted archive and what its database recorded is a gap', async () => {
  const [db, adopter] = [original.database.db, dump.database.db]
  for (const each of [db, adopter]) await storeFills(each, secondsUntil(200))
  // The original goes on for a day and a half, page after page.
  for (let second = 200; second < 1.5 * daySeconds; second += 4_000)
    await storeFills(db, [second, second + 1_000, second + 2_000, second + 3_000, second + 4_000])
  // Another instrument has a gap on the first day.
  for (const second of [100, 1_000]) {
    const others = [second + 1, second].map((at) => ({ ...fill(at), symbol: 'ETHUSDT' }))
    const askedAt = start + (second + 10) * secondMs
    await storeBatch(db, batchOf('fills', { ...instrument, symbol: 'ETHUSDT' }, others, askedAt))
  }
  await archiveAll(original.database, archive.target, start + 37.5 * 3_600_000)
  // The recorder goes on with the dump before the archive is adopted.
  await storeFills(adopter, [2.5 * daySeconds, 2.5 * daySeconds + 10])
  const inGap = [1.6 * daySeconds, 2 * daySeconds]
  expect(await secondsIn(adopter, 'gaps', inGap)).toEqual(inGap)
  await adoptArchive(adopter, archive.target)

  expect(await secondsIn(adopter, 'gaps', [100, 2_000, ...inGap, 2.5 * daySeconds + 5])).toEqual(inGap)
})

test.each([[true], [false]])(
  'a gap ends where an archive ends that knows its time; gaps on that day: %s',
  async (has) => {
    const [db, adopter] = [original.database.db, dump.database.db]
    const stream = instrumentStream('order_books', instrument)
    const range = (from: number, to: number) => ({ from: start + from * secondMs, to: start + to * secondMs })
    const midnight = daySeconds / 2
    if (has) await recordGap(db, { ...stream, range: range(0, 100), reason: 'an outage' })
    await appendRows(
      db,
      'order_books',
      [200, 300].map((second) => aBook({ ts: start + second * secondMs })),
    )
    await archiveAll(original.database, archive.target, start + 24 * 3_600_000)
    // A dump was brought back a day later.
    await recordGap(adopter, { ...stream, range: range(-daySeconds, 2 * daySeconds), reason: 'nothing ran' })
    await adoptArchive(adopter, archive.target)

    const { rows } = await sql<{ from: number; to: number; reason: string }>`
    select from_time as "from", to_time as "to", reason from market.gaps where stream = 'order_books' order by 1`.execute(
      adopter,
    )
    expect(rows).toEqual([
      { ...range(-daySeconds, -midnight), reason: 'nothing ran' },
      ...(has ? [{ ...range(0, 100), reason: 'an outage' }] : []),
      { ...range(midnight, 2 * daySeconds), reason: 'nothing ran' },
    ])
  },
)

test.each([[true], [false]])('a fill of a history in whole seconds stays one; adopted: %s', async (isAdopted) => {
  const second = (at: number) => aFill({ execId: String(at), ts: start + at * secondMs, size: '2', price: '10' })
  const { db } = original.database
  await storePast(db, [199, 150, 100, 50, 1].map(second))
  await storeBatch(
    db,
    batchOf('fills', { ...instrument, symbol: 'ETHUSDT' }, [{ ...fill(9 * daySeconds), symbol: 'ETHUSDT' }], now),
  )
  await archiveAll(original.database, archive.target, now)
  if (isAdopted) await adoptArchive(dump.database.db, archive.target)
  else
    await removeArchived(original.database, archive.target, [{ name: 'fills', retentionDays: 4 }], { now: () => now })
  const recording = isAdopted ? dump : original
  // The instrument is recorded live from now on.
  await storeFills(recording.database.db, [9 * daySeconds, 199, 150, 100, 50, 1])
  const { rows } = await sql`select exec_id from market.fills where symbol = 'BTCUSDT'`.execute(recording.database.db)
  expect(rows).toEqual([{ exec_id: String(9 * daySeconds) }])
})

test('a day is restored that begins within two repaired gaps', async () => {
  const { db } = original.database
  const midnight = daySeconds / 2
  const around = (from: number, to: number) => secondsUntil(to - from).map((second) => midnight + from + second)
  await storeFills(db, around(-120, -60))
  await storeFills(db, around(60, 120))
  // A page fills the gap between two responses, and candles of its minutes show then that two fills are missing.
  const hidden = [midnight - 30, midnight + 31]
  await storeFills(
    db,
    around(-90, 90).filter((second) => !hidden.includes(second)),
  )
  await storeCandles(db, [candle(719), candle(720)])
  await storeFills(db, around(-90, 90))
  await archiveAll(original.database, archive.target, now)
  const request = { tables: ['fills'], pointers: await hintsOf(archive.target), from: '2026-03-02' as const }
  const { problems } = await restoreArchive(dump.database, archive.target, request)

  expect(problems).toEqual([])
  const { rows } = await sql`select distinct state from market.gaps`.execute(dump.database.db)
  expect(rows).toEqual([{ state: 'repaired' }])
})
