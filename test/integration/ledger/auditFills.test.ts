import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { auditFills, dismissEmptyGaps } from '../../../src/ledger/fillAudit.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { fillsPerPage } from '../../../src/market/rows.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { minuteMs } from '../../../src/market/values.js'
import { instrumentStream } from '../../../src/db/series.js'
import { addCoverage } from '../../../src/ledger/verdicts.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate recorder.ledger, market.fills, market.candles`.execute(test.database.db)
})

const start = Math.ceil(someTime / minuteMs) * minuteMs
const since = start - 86_400_000
const second = (number: number) => ({ execId: String(number), ts: start + number * 1_000, size: '2' })

/** A full page of a fill each second, the last of which is number `to`. */
async function storePage(to: number, without: readonly number[] = []): Promise<void> {
  const numbers = Array.from({ length: fillsPerPage + without.length }, (_, index) => to - index)
  const rows = numbers.filter((number) => !without.includes(number)).map((number) => aFill(second(number)))
  const target = { category: 'SPOT', symbol: 'BTCUSDT' }
  await storeBatch(test.database.db, batchOf('fills', target, rows, start + to * 1_000 + 10_000))
}

const candle = (minute: number, baseVolume = '120') => aCandle({ openTime: start + minute * minuteMs, baseVolume })
const store = (...candles: ReturnType<typeof candle>[]) => upsertCandles(test.database.db, candles)
const audit = async (minutesLater: number) =>
  (await auditFills(test.database.db, { since, at: start + minutesLater * minuteMs })).map(
    ({ minute }) => (minute - start) / minuteMs,
  )

async function rangesOf(view: string): Promise<[number, number][]> {
  const { rows } = await sql<TimeRange>`
    select from_time as "from", to_time as "to" from ${sql.table(view)} where stream = 'fills' order by 1`.execute(
    test.database.db,
  )
  return rows.map(({ from, to }) => [(from - start) / 1_000, (to - start) / 1_000])
}

describe('claims of fills', () => {
  it('are withdrawn of the minutes in which candles show more, once both are there', async () => {
    for (const to of [99, 180, 270]) await storePage(to, to === 180 ? [130] : [])
    expect(await rangesOf('market.coverage')).toEqual([[0.001, 270]])
    expect(await audit(5)).toEqual([])
    await store(candle(1), candle(3))
    expect(await audit(5)).toEqual([])
    await store(candle(2))
    expect(await audit(5)).toEqual([2])
    expect(await rangesOf('market.coverage')).toEqual([
      [0.001, 120],
      [180, 270],
    ])
    expect(await rangesOf('market.gaps')).toEqual([[120, 180]])
    // Minute 0 has no candle yet. Each claim is withdrawn once, and what follows goes on.
    expect(await audit(5)).toEqual([])
    await storePage(330)
    expect(await rangesOf('market.coverage')).toEqual([
      [0.001, 120],
      [180, 330],
    ])
  })

  it('are withdrawn of minutes in a row, and each is named', async () => {
    await storePage(99)
    await storePage(180, [130])
    await storePage(270, [190])
    await store(candle(0), candle(1), candle(2), candle(3))
    expect(await audit(5)).toEqual([2, 3])
    expect(await rangesOf('market.gaps')).toEqual([[120, 240]])
  })

  it('are given back when the fills come after all', async () => {
    for (const to of [99, 180, 270]) await storePage(to, to === 180 ? [130] : [])
    await store(candle(0, '118'), candle(1), candle(2), candle(3))
    expect(await audit(5)).toEqual([2])
    await sql`
      insert into market.fills (category, symbol, exec_id, price, size, side, ts, received_at)
      values ('SPOT', 'BTCUSDT', '130', 1, 2, 'buy', ${new Date(start + 130_000)}, now())`.execute(test.database.db)
    expect(await dismissEmptyGaps(test.database.db, { since, after: 0 })).toMatchObject({ dismissed: 1 })
    expect(await rangesOf('market.coverage')).toEqual([[0.001, 270]])
    expect(await rangesOf('market.gaps')).toEqual([])
  })

  it('stay where no candle came, where candles show less, and where the minute is not over', async () => {
    for (const to of [99, 180, 270]) await storePage(to)
    await store(candle(0, '1'), candle(2, '100'), candle(4, '900'))
    expect(await audit(5)).toEqual([])
    expect(await audit(60)).toEqual([])
    expect(await rangesOf('market.coverage')).toEqual([[0.001, 270]])
    await storePage(340)
    expect(await audit(60)).toEqual([4])
  })

  it('stay of a minute that is claimed in part', async () => {
    for (const to of [129, 220]) await storePage(to)
    await store(candle(0), candle(1), candle(2))
    expect(await audit(5)).toEqual([])
    expect(await rangesOf('market.coverage')).toEqual([[30.001, 220]])
  })

  it('are withdrawn of a minute that is older than the newest part of the claims', async () => {
    const { db } = test.database
    // One range fewer than make a part full. The pages below add the last one, and the gap after them begins a part.
    const earlier = Array.from({ length: 127 }, (_, index) => ({
      from: start - 1_000 + 2 * index,
      to: start - 999 + 2 * index,
    }))
    await addCoverage(db, instrumentStream('fills', { category: 'SPOT', symbol: 'BTCUSDT' }), earlier)
    for (const to of [99, 180, 270]) await storePage(to, to === 180 ? [130] : [])
    await store(candle(0, '118'), candle(1))
    expect(await audit(5)).toEqual([])
    await storePage(700)
    const { rows: parts } = await sql`select from recorder.ledger where verdict = 'recorded'`.execute(db)
    expect(parts).toHaveLength(2)
    await store(candle(2))
    expect(await audit(12)).toEqual([2])
    expect(await rangesOf('market.gaps')).toContainEqual([120, 180])
  })
})
