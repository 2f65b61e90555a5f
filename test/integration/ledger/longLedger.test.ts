import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Batch } from '../../../src/ledger/batch.js'
import { batchOf } from '../../support/batches.js'
import type { TestDatabase } from '../../support/database.js'
import { at, every, fillPage, storeAll } from '../../support/fillPages.js'
import { aCandle, someTime } from '../../support/marketRows.js'
import { collectPlans, createExplainedDatabase } from '../../support/plans.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

/** A series has so many gaps, ten minutes apart, in parts of 128, so many silent days, and so much evidence. */
const past = { gaps: 157 * 128, silentDays: 300, disputes: 300 }
/** Most rows of the ledger that one statement may look at. */
const maxRows = 100

let created: TestDatabase
const folder = temporaryFolder('long-ledger')
const plans = collectPlans()
beforeAll(async () => {
  created = await createExplainedDatabase(folder)
  await storePast()
})
afterAll(async () => {
  plans.stop()
  await created?.drop()
})
beforeEach(() => plans.statements.clear())

async function storePast(): Promise<void> {
  const begin = new Date(at(-past.gaps * 600_000))
  const claimOf = sql`generate_series(0, ${past.gaps - 1}) as n,
    lateral (select ${begin}::timestamptz + n * interval '10 minutes') as g (t)`
  for (const statement of [
    sql`select 'fills', 'recorded', '', '', case min(n) when 0 then '-infinity' else min(t) end,
      range_agg(tstzrange(t, t + interval '9 minutes')), null from ${claimOf} group by n / 128`,
    sql`select 'fills', 'missing', '', '', t + interval '9 minutes',
      tstzmultirange(tstzrange(t + interval '9 minutes', t + interval '10 minutes')), 'test' from ${claimOf}`,
    sql`select 'fills', 'disputed', '', '', t, tstzmultirange(tstzrange(t, t + interval '1 ms')), 'test'
      from ${claimOf} where n < ${past.disputes}`,
    sql`select 'fills', 'unsettled', '', '', '-infinity'::timestamptz, '{}'::tstzmultirange, null`,
    sql`select 'candles', 'no trade', 'market', '1m', day, (
        select range_agg(tstzrange(t, t + interval '1 minute')) from generate_series(day, day + interval '23 hours', interval '2 minutes') as t
      ), null
      from generate_series(1, ${past.silentDays}) as n, lateral (
        select date_bin('1 day', ${new Date(someTime)}, timestamptz 'epoch') - n * interval '1 day') as d (day)`,
    sql`select 'candles', 'recorded', 'market', '1m', '-infinity'::timestamptz,
      tstzmultirange(tstzrange(${begin}, ${new Date(someTime)})), null`,
  ])
    await sql`
      insert into recorder.ledger (stream, category, symbol, verdict, type, interval, part, ranges, reason, settled_at, noted_at, asked_since)
      select p.stream, 'SPOT', 'BTCUSDT', p.verdict, p.type, p.interval, p.part, p.ranges, p.reason,
        case p.verdict when 'unsettled' then 'infinity'::timestamptz end, ${new Date(someTime)},
        case p.verdict when 'unsettled' then ${begin}::timestamptz end
      from (${statement}) as p (stream, verdict, type, interval, part, ranges, reason)`.execute(created.database.db)
  await sql`vacuum analyze`.execute(created.database.db)
}

const page = (from: number, until: number, stepMs = 1_000) =>
  fillPage(every(stepMs, from, until), { requested: until + 5_000 })

/** Candles of these minutes of the tests' market, of which each counts so much. */
function candles(minutes: readonly number[], baseVolume: string): Batch {
  const target = {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    type: 'market',
    interval: '1m',
    settleMs: 5_000,
    limit: 3,
  } as const
  const rows = minutes.map((minute) =>
    aCandle({
      openTime: at(minute * 60_000),
      open: '100.50',
      high: '100.50',
      low: '100.50',
      close: '100.50',
      baseVolume,
    }),
  )
  return batchOf('candles', target, rows.toReversed(), at(((minutes.at(-1) ?? 0) + 1) * 60_000 + 1_000))
}

/** One response after another, each of which goes on from what those before it left. */
test.each<[what: string, batch: () => Batch]>([
  ['a page after a gap', () => page(0, 100_000)],
  ['a page that goes on', () => page(90_000, 190_000)],
  ['a page after another gap', () => page(200_000, 290_000)],
  ['a page that goes on from the first claim of a part', () => page(280_000, 400_000)],
  ['candles that agree', () => candles([1, 2], '0.600')],
  ['candles that contradict', () => candles([4, 5], '0.900')],
  ['candles after silence', () => candles([6, 9], '0.900')],
  ['a page that leaves out stored fills', () => page(360_000, 430_000, 2_000)],
  ['a page that shows them again', () => page(300_000, 460_000)],
  ['a page in claimed time with fills that are new', () => page(240_500, 280_500)],
])('however long the ledger of a series is, a response looks at few rows of it: %s', async (_, batch) => {
  await storeAll(created.database.db, [batch()])
  const beyond = [...plans.statements.values()]
    .filter(({ ledgerRows }) => ledgerRows > maxRows)
    .map(({ text, ledgerRows }) => `${ledgerRows} rows: ${text.trim().replaceAll(/\s+/g, ' ')}`)
  expect(plans.statements.size).toBeGreaterThan(0)
  expect(beyond).toEqual([])
})
