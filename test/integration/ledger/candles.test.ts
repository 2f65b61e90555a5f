import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Candle } from '../../../src/market/candle.js'
import { storeCandles, upsertCandles } from '../../../src/ledger/storeCandles.js'
import { serviceMs } from '../../../src/market/values.js'
import { aCandle, someTime } from '../../support/marketRows.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.candles, recorder.candle_revision`.execute(test.database.db)
})

const stored = () =>
  test.database.db
    .selectFrom('market.candles')
    .select(['open_time', 'close', 'is_closed'])
    .orderBy('open_time')
    .execute()
const revisions = () =>
  test.database.db
    .selectFrom('recorder.candle_revision')
    .select(['open_time', 'old_close', 'new_close', 'old_base_volume', 'new_base_volume'])
    .orderBy('id')
    .execute()

describe('candles', () => {
  it('are overwritten while they form, then become final', async () => {
    const { db } = test.database
    const forming = aCandle({ isClosed: false })
    expect(await upsertCandles(db, [forming])).toEqual({ inserted: 1, updated: 0 })
    expect(await upsertCandles(db, [forming])).toEqual({ inserted: 0, updated: 0 })
    expect(await upsertCandles(db, [{ ...forming, close: '11.5' }])).toEqual({ inserted: 0, updated: 1 })
    expect(await upsertCandles(db, [aCandle({ close: '11.5' })])).toEqual({ inserted: 0, updated: 1 })
    expect(await stored()).toEqual([{ open_time: someTime, close: '11.5', is_closed: true }])
    expect(await revisions()).toEqual([])
  })

  it('never go back from closed to forming', async () => {
    const { db } = test.database
    await upsertCandles(db, [aCandle()])
    const late = aCandle({ isClosed: false, close: '9' })
    expect(await upsertCandles(db, [late])).toEqual({ inserted: 0, updated: 0 })
    expect(await stored()).toEqual([{ open_time: someTime, close: '11', is_closed: true }])
    expect(await revisions()).toEqual([])
  })

  it('are not overwritten by a response that has waited on a disk', async () => {
    const { db } = test.database
    await sql`truncate recorder.ledger`.execute(db)
    const at = (ms: number) => serviceMs(someTime + ms)
    await storeCandles(db, [aCandle({ close: '11' })], [], at(125_000))
    const next = aCandle({ openTime: someTime + 60_000, isClosed: false })
    await storeCandles(db, [aCandle({ close: '10' }), next], [], at(65_000))
    expect(await stored()).toEqual([
      { open_time: someTime, close: '11', is_closed: true },
      { open_time: someTime + 60_000, close: '11', is_closed: false },
    ])
    expect(await revisions()).toEqual([])
    // It still closes a candle. A newer response changes both.
    await storeCandles(db, [{ ...next, isClosed: true }], [], at(124_000))
    await storeCandles(db, [aCandle({ close: '10' })], [], at(130_000))
    expect(await stored()).toMatchObject([
      { close: '10', is_closed: true },
      { close: '11', is_closed: true },
    ])
    expect(await revisions()).toMatchObject([{ old_close: '11', new_close: '10' }])
  })

  it('are not overwritten by a page of the past that is older than the live response that showed them', async () => {
    const { db } = test.database
    await sql`truncate recorder.ledger`.execute(db)
    const at = (ms: number) => serviceMs(someTime + ms)
    const shownLive = aCandle({ openTime: someTime + 60_000, close: '12' })
    await storeCandles(db, [aCandle(), { ...shownLive, close: '11' }], [], null, at(125_000))
    await storeCandles(db, [shownLive], [], at(185_000))
    // The older page corrects the candle that the live response did not show, and no other. A newer one corrects both.
    const read = [aCandle({ close: '9' }), { ...shownLive, close: '10' }]
    await storeCandles(db, read, [], null, at(180_000))
    expect(await stored()).toMatchObject([{ close: '9' }, { close: '12' }])
    await storeCandles(db, read, [], null, at(190_000))
    expect(await stored()).toMatchObject([{ close: '9' }, { close: '10' }])
  })

  it('are logged when a closed one changes', async () => {
    const { db } = test.database
    await upsertCandles(db, [aCandle()])
    expect(await upsertCandles(db, [aCandle({ close: '11.01', baseVolume: '5.1' })])).toMatchObject({ updated: 1 })
    expect(await upsertCandles(db, [aCandle({ close: '11.01', baseVolume: '5.1' })])).toEqual({
      inserted: 0,
      updated: 0,
    })
    expect(await revisions()).toEqual([
      { open_time: someTime, old_close: '11', new_close: '11.01', old_base_volume: '5.0', new_base_volume: '5.1' },
    ])
  })

  it('may lack their volumes, and a revision tells when these come', async () => {
    const { db } = test.database
    const unknown = aCandle({ baseVolume: null, quoteTurnover: null })
    await upsertCandles(db, [unknown])
    expect(await upsertCandles(db, [unknown])).toEqual({ inserted: 0, updated: 0 })
    await upsertCandles(db, [aCandle()])
    expect(await revisions()).toMatchObject([{ old_base_volume: null, new_base_volume: '5.0' }])
  })

  it('are not logged when only trailing zeros differ', async () => {
    const { db } = test.database
    await upsertCandles(db, [aCandle({ close: '11' })])
    expect(await upsertCandles(db, [aCandle({ close: '11.00' })])).toEqual({ inserted: 0, updated: 0 })
    expect(await revisions()).toEqual([])
  })

  it('count once when they stand twice in a batch: the final one, and of several the last', async () => {
    const { db } = test.database
    const batch = [
      aCandle({ close: '9.1' }),
      aCandle({ close: '9.2' }),
      aCandle({ isClosed: false, close: '9.3' }),
      aCandle({ openTime: someTime + 60_000, isClosed: false, close: '9.4' }),
      aCandle({ openTime: someTime + 60_000, isClosed: false, close: '9.5' }),
    ]
    expect(await upsertCandles(db, batch)).toEqual({ inserted: 2, updated: 0 })
    expect(await stored()).toEqual([
      { open_time: someTime, close: '9.2', is_closed: true },
      { open_time: someTime + 60_000, close: '9.5', is_closed: false },
    ])
  })

  it('lose no update and no revision when several write at once', async () => {
    const { db } = test.database
    await upsertCandles(db, [aCandle({ close: '0' })])
    const closes = Array.from({ length: 20 }, (_, i) => String(i + 1))
    await Promise.all(closes.map((close) => upsertCandles(db, [aCandle({ close })])))
    const log = await revisions()
    expect(log.map(({ new_close }) => new_close).toSorted()).toEqual(closes.toSorted())
    // Each revision begins where another one ended.
    expect(log.map(({ old_close }) => old_close).toSorted()).toEqual(
      ['0', ...closes].filter((close) => close !== log.at(-1)?.new_close).toSorted(),
    )
  })

  it('end the same in whatever batches they come', async () => {
    const { db } = test.database
    const candle = fc.record({
      openTime: fc.constantFrom(...[0, 1, 2].map((i) => someTime + i * 60_000)),
      close: fc.constantFrom('1', '2', '3'),
      isClosed: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(candle, { maxLength: 6 }), { maxLength: 5 }), async (batches) => {
        await sql`truncate market.candles, recorder.candle_revision`.execute(db)
        const expected = new Map<number, Pick<Candle, 'close' | 'isClosed'>>()
        for (const batch of batches) {
          await upsertCandles(db, batch.map(aCandle))
          for (const { openTime, close, isClosed } of batch) {
            if (isClosed || expected.get(openTime)?.isClosed !== true) expected.set(openTime, { close, isClosed })
          }
        }
        const rows = await stored()
        expect(new Map(rows.map((row) => [row.open_time, { close: row.close, isClosed: row.is_closed }]))).toEqual(
          expected,
        )
      }),
      { numRuns: 40 },
    )
  })

  it('roll up into longer ones from closed 1m market candles alone', async () => {
    const { db } = test.database
    const minute = (i: number, changes: Partial<Candle>) => aCandle({ openTime: someTime + i * 60_000, ...changes })
    await upsertCandles(db, [
      minute(0, { open: '10', high: '10.5', low: '9.50', close: '10.1', baseVolume: '1.10', quoteTurnover: '11' }),
      minute(4, { open: '10.2', high: '12.0', low: '10', close: '11.9', baseVolume: '2.2', quoteTurnover: '22' }),
      minute(5, { open: '20', high: '21', low: '19', close: '20.5', baseVolume: '3', quoteTurnover: '60' }),
      minute(3, { high: '99', isClosed: false }),
      minute(2, { high: '99', type: 'mark' }),
      minute(0, { high: '99', interval: '5m' }),
    ])
    const { rows } = await sql`
      select open_time, open, high, low, close, base_volume, quote_turnover from market.ohlcv_5m order by 1`.execute(db)
    expect(rows).toEqual([
      {
        open_time: someTime,
        open: '10',
        high: '12.0',
        low: '9.50',
        close: '11.9',
        base_volume: '3.30',
        quote_turnover: '33',
      },
      {
        open_time: someTime + 300_000,
        open: '20',
        high: '21',
        low: '19',
        close: '20.5',
        base_volume: '3',
        quote_turnover: '60',
      },
    ])
    const day = await sql`select open_time, high from market.ohlcv_1d`.execute(db)
    expect(day.rows).toEqual([{ open_time: Date.UTC(2026, 0, 15), high: '21' }])
  })
})
