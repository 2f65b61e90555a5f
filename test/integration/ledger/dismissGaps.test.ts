import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { dismissEmptyGaps } from '../../../src/ledger/fillAudit.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { insertFills } from '../../support/insertFills.js'
import type { Series } from '../../../src/db/series.js'
import { addCoverage } from '../../../src/ledger/verdicts.js'
import { listGaps, recordGap } from '../../../src/ledger/gaps.js'
import { coveredRanges } from '../../support/coverage.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())
beforeEach(async () => {
  await sql`truncate recorder.ledger, market.fills, market.candles`.execute(created.database.db)
})

const minuteMs = 60_000
const fills: Series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' }
const since = someTime - 24 * 3_600_000
const found = { reason: 'pages did not overlap', verdict: 'lost', detectedAt: someTime } as const
/** What the index of the gaps that wait for judgement holds. */
async function waiting(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from recorder.ledger where stream = 'fills' and verdict = 'lost' and judged_at is null`.execute(
    created.database.db,
  )
  return rows[0]?.count ?? 0
}
/** As the recorder does it, until it would begin again. Resolves to how many were taken back, and in how many looks. */
async function lookThrough(): Promise<{ dismissed: number; looks: number }> {
  let [dismissed, looks] = [0, 0]
  for (let after: number | null = 0; after !== null; looks++) {
    const look = await dismissEmptyGaps(created.database.db, { since, after })
    dismissed += look.dismissed
    after = look.last
  }
  return { dismissed, looks }
}

test('of thousands of lost gaps the one that is none is taken back, and each is judged once', async () => {
  const { db } = created.database
  const gaps = 2_400
  await sql`
    insert into recorder.ledger (stream, category, symbol, verdict, part, ranges, reason, noted_at, settled_at)
    select 'fills', 'SPOT', 'BTCUSDT', 'lost', at, tstzmultirange(tstzrange(at, at + interval '5 ms')),
      'pages did not overlap', at, at
    from generate_series(1, ${gaps}) as n
    cross join lateral (select ${new Date(someTime)}::timestamptz + n * interval '10 ms' as at) as t`.execute(db)
  // They lie in the first minute, whose volume is not that of the fills; that of the next minute is.
  const next = someTime + minuteMs
  await recordGap(db, { ...fills, range: { from: next + 5, to: next + 9 }, ...found })
  await insertFills(db, [aFill({ ts: someTime, size: '1' }), aFill({ ts: next, size: '3', execId: '2' })])
  await upsertCandles(db, [
    aCandle({ openTime: someTime, baseVolume: '2' }),
    aCandle({ openTime: next, baseVolume: '3.0' }),
  ])
  await addCoverage(db, fills, [{ from: next + minuteMs, to: next + 2 * minuteMs }])

  expect(await lookThrough()).toEqual({ dismissed: 1, looks: 5 })
  expect(await listGaps(db)).toHaveLength(gaps)
  expect(await coveredRanges(db, fills)).toEqual([
    { from: next + 5, to: next + 9 },
    { from: next + minuteMs, to: next + 2 * minuteMs },
  ])
  // There is nothing left to look at.
  expect(await waiting()).toBe(0)
  expect(await lookThrough()).toEqual({ dismissed: 0, looks: 1 })
})

test('a gap waits for the candles of its minutes and for fills that are still on their way', async () => {
  const { db } = created.database
  await recordGap(db, { ...fills, range: { from: someTime + minuteMs - 5, to: someTime + minuteMs + 5 }, ...found })
  await insertFills(db, [aFill({ ts: someTime, size: '1' })])
  const look = async () => [(await lookThrough()).dismissed, await waiting()]
  expect(await look()).toEqual([0, 1])
  await upsertCandles(db, [aCandle({ openTime: someTime, baseVolume: '1' })])
  expect(await look()).toEqual([0, 1])
  await upsertCandles(db, [aCandle({ openTime: someTime + minuteMs, baseVolume: '2', isClosed: false })])
  expect(await look()).toEqual([0, 1])
  await upsertCandles(db, [aCandle({ openTime: someTime + minuteMs, baseVolume: '2' })])
  // The fills of the second minute have waited on disk.
  expect(await look()).toEqual([0, 1])
  await insertFills(db, [aFill({ ts: someTime + minuteMs + 30_000, size: '2', execId: '2' })])
  expect(await look()).toEqual([1, 0])
})

test('a gap whose fills are all there by all that is proven is lost for good, as is one that has waited for a day', async () => {
  const { db } = created.database
  const range = { from: someTime + 10, to: someTime + 20 }
  await recordGap(db, { ...fills, range, ...found })
  await recordGap(db, { ...fills, symbol: 'NOCANDLESUSDT', range, ...found, detectedAt: since - 1 })
  await recordGap(db, { ...fills, symbol: 'NOCANDLESUSDT', range: { from: 1, to: 2 }, ...found })
  await upsertCandles(db, [aCandle({ openTime: someTime, baseVolume: '1' })])
  await addCoverage(db, fills, [{ from: someTime + 20, to: someTime + minuteMs }])
  expect(await lookThrough()).toEqual({ dismissed: 0, looks: 1 })
  expect(await waiting()).toBe(1)
  expect(await listGaps(db)).toHaveLength(3)
})
