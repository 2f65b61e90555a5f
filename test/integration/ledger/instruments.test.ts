import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Instrument, instrumentFields } from '../../../src/market/instrument.js'
import { bounds } from '../../../src/market/bounds.js'
import { recordInstruments, recordRpiSymbols } from '../../../src/ledger/instruments.js'
import { listInstruments } from '../../../src/ledger/read/instruments.js'
import { anInstrument, someTime } from '../../support/marketRows.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.instruments, market.instrument_history, market.rpi_symbols`.execute(test.database.db)
})

const history = (symbol = 'BTCUSDT') =>
  test.database.db
    .selectFrom('market.instrument_history')
    .select(['status', 'valid_from', 'valid_to'])
    .where('symbol', '=', symbol)
    .orderBy('valid_from')
    .execute()
const nothing = { inserted: 0, updated: 0, disappeared: 0 }

describe('instruments', () => {
  it('open no new version for an unknown field that moves, and keep its value with the next change', async () => {
    const { db } = test.database
    for (let seen = 0; seen < 6; seen++)
      await recordInstruments(db, 'SPOT', [anInstrument({ extra: { counter: seen } })], someTime + seen)
    expect(await history()).toHaveLength(1)
    const changed = anInstrument({ status: 'offline', extra: { counter: 6 } })
    expect(await recordInstruments(db, 'SPOT', [changed], someTime + 6)).toMatchObject({ updated: 1 })
    const { extra } = await db.selectFrom('market.instruments').select('extra').executeTakeFirstOrThrow()
    expect(extra).toEqual({ counter: 6 })
  })

  it('keep every field', async () => {
    const { db } = test.database
    const values = Object.fromEntries(
      Object.entries(instrumentFields).map(([field, kind], i) => [
        field,
        {
          text: `text ${i}`,
          boolean: i % 2 === 0,
          integer: 9_007_199_254_740_991,
          decimal: `${i}.0${i}0`,
          time: someTime + i,
        }[kind],
      ]),
    ) as unknown as Partial<Instrument>
    await recordInstruments(db, 'SPOT', [anInstrument({ ...values, extra: { isNew: ['yes'] } })], someTime)
    const row = await db.selectFrom('market.instruments').selectAll().executeTakeFirstOrThrow()
    expect(row).toMatchObject({
      category: 'SPOT',
      symbol: 'BTCUSDT',
      base_coin: 'text 0',
      is_isolated_quoted_borrowable: values.isIsolatedQuotedBorrowable,
      max_product_order_num: 9_007_199_254_740_991,
      delivery_start_time: values.deliveryStartTime,
      taker_fee_rate: values.takerFeeRate,
      extra: { isNew: ['yes'] },
      first_seen_at: someTime,
      updated_at: someTime,
      disappeared_at: null,
    })
    const { extra: _, category: _c, symbol: _s, ...rest } = row
    expect(Object.values(rest).filter((value) => value === null)).toEqual([null])
    expect(
      await recordInstruments(db, 'SPOT', [anInstrument({ ...values, extra: { isNew: ['yes'] } })], someTime + 1),
    ).toEqual(nothing)
  })

  it('open a version when something changed, and none otherwise', async () => {
    const { db } = test.database
    const record = (changes: Partial<Instrument>, at: number) =>
      recordInstruments(db, 'SPOT', [anInstrument(changes)], at)
    expect(await record({}, someTime)).toEqual({ ...nothing, inserted: 1 })
    expect(await record({}, someTime + 1)).toEqual(nothing)
    expect(await record({ status: 'offline' }, someTime + 2)).toEqual({ ...nothing, updated: 1 })
    expect(await record({ status: 'halt', extra: { a: 1 } }, someTime + 3)).toMatchObject({ updated: 1 })
    expect(await history()).toEqual([
      { status: 'online', valid_from: someTime, valid_to: someTime + 2 },
      { status: 'offline', valid_from: someTime + 2, valid_to: someTime + 3 },
      { status: 'halt', valid_from: someTime + 3, valid_to: null },
    ])
    const now = await db.selectFrom('market.instruments').selectAll().executeTakeFirstOrThrow()
    expect(now).toMatchObject({ status: 'halt', first_seen_at: someTime, updated_at: someTime + 3 })
  })

  it('close their version when a complete answer lacks them, and open one when they come back', async () => {
    const { db } = test.database
    const other = anInstrument({ symbol: 'ETHUSDT' })
    await recordInstruments(db, 'SPOT', [anInstrument(), other], someTime)
    await recordInstruments(db, 'MARGIN', [anInstrument({ category: 'MARGIN' })], someTime)
    expect(await recordInstruments(db, 'SPOT', [other], someTime + 1)).toMatchObject({ disappeared: 0 })
    expect(await recordInstruments(db, 'SPOT', [other], someTime + 2, { complete: true })).toMatchObject({
      disappeared: 1,
    })
    expect((await listInstruments(db)).map(({ category, symbol }) => `${category} ${symbol}`)).toEqual([
      'SPOT ETHUSDT',
      'MARGIN BTCUSDT',
    ])
    expect(await recordInstruments(db, 'SPOT', [anInstrument()], someTime + 5)).toMatchObject({
      inserted: 1,
      updated: 0,
    })
    const { rows } = await sql`
      select valid_from, valid_to from market.instrument_history
      where category = 'SPOT' and symbol = 'BTCUSDT' order by 1`.execute(db)
    expect(rows).toEqual([
      { valid_from: someTime, valid_to: someTime + 2 },
      { valid_from: someTime + 5, valid_to: null },
    ])
    expect(await listInstruments(db)).toHaveLength(3)
  })

  it('are not touched by an answer that is older than what is known', async () => {
    const { db } = test.database
    await recordInstruments(db, 'SPOT', [anInstrument()], someTime)
    expect(await recordInstruments(db, 'SPOT', [anInstrument({ status: 'listed' })], someTime - 5)).toEqual(nothing)
    expect(await recordInstruments(db, 'SPOT', [], someTime - 5, { complete: true })).toEqual(nothing)
    expect(await history()).toEqual([{ status: 'online', valid_from: someTime, valid_to: null }])
  })

  it('keep so many versions of a day, of which the newest is what is now', async () => {
    const { db } = test.database
    const record = (status: string, at: number) => recordInstruments(db, 'SPOT', [anInstrument({ status })], at)
    const other = anInstrument({ symbol: 'ETHUSDT' })
    await recordInstruments(db, 'SPOT', [other], someTime + 1_000)
    const last = someTime + bounds.versions + 5
    for (let at = someTime; at < last; at++)
      expect(await record(`s${at - someTime}`, at)).toMatchObject(at === someTime ? { inserted: 1 } : { updated: 1 })
    const kept = await history()
    expect(kept).toHaveLength(bounds.versions)
    // What is dropped of is told as before it, and never earlier than it was seen.
    expect(kept.slice(-2)).toEqual([
      { status: `s${bounds.versions - 2}`, valid_from: someTime + bounds.versions - 2, valid_to: last - 1 },
      { status: `s${bounds.versions + 4}`, valid_from: last - 1, valid_to: null },
    ])
    const { status } = await db
      .selectFrom('market.instruments')
      .select('status')
      .where('symbol', '=', 'BTCUSDT')
      .executeTakeFirstOrThrow()
    expect(status).toBe(`s${bounds.versions + 4}`)
    await record('next day', last + 86_400_000)
    expect(await history()).toHaveLength(bounds.versions + 1)
    expect(await history('ETHUSDT')).toHaveLength(1)
  })

  it('take the last one when an answer names an instrument twice', async () => {
    const { db } = test.database
    await recordInstruments(db, 'SPOT', [anInstrument(), anInstrument({ status: 'offline' })], someTime)
    expect(await history()).toEqual([{ status: 'offline', valid_from: someTime, valid_to: null }])
  })

  it('refuse one of another category', async () => {
    const { db } = test.database
    const call = recordInstruments(db, 'SPOT', [anInstrument({ category: 'MARGIN' })], someTime)
    await expect(call).rejects.toThrow('BTCUSDT is of MARGIN, not of SPOT')
  })

  it('keep one open version when two recorders see a change at once', async () => {
    const { db } = test.database
    const calls = [0, 1, 2, 3].map((i) =>
      recordInstruments(db, 'SPOT', [anInstrument({ status: `s${i}` })], someTime + i, { complete: true }),
    )
    await Promise.all(calls)
    expect((await history()).filter(({ valid_to }) => valid_to === null)).toHaveLength(1)
  })

  it('never have overlapping versions, in whatever order answers come', async () => {
    const { db } = test.database
    const answer = fc.record({
      at: fc.integer({ min: 0, max: 12 }),
      complete: fc.boolean(),
      rows: fc.uniqueArray(
        fc.record({ symbol: fc.constantFrom('A', 'B'), status: fc.constantFrom('online', 'offline') }),
        { selector: ({ symbol }) => symbol },
      ),
    })
    // The last one is of the moment at which A was gone, and A is back since.
    const lateOnes = [
      { at: 1, complete: false, rows: [{ symbol: 'A' as const, status: 'online' as const }] },
      { at: 2, complete: true, rows: [] },
      { at: 3, complete: false, rows: [{ symbol: 'A' as const, status: 'offline' as const }] },
      { at: 2, complete: false, rows: [{ symbol: 'B' as const, status: 'online' as const }] },
    ]
    await fc.assert(
      fc.asyncProperty(fc.array(answer, { maxLength: 10 }), async (answers) => {
        await sql`truncate market.instruments, market.instrument_history`.execute(db)
        for (const { at, complete, rows } of answers) {
          await recordInstruments(db, 'SPOT', rows.map(anInstrument), someTime + at, { complete })
        }
        const { rows: overlaps } = await sql`
          select a.symbol, a.valid_from, b.valid_from as other
          from market.instrument_history a
          join market.instrument_history b on a.category = b.category and a.symbol = b.symbol
            and a.valid_from < b.valid_from
            and tstzrange(a.valid_from, a.valid_to) && tstzrange(b.valid_from, b.valid_to)`.execute(db)
        expect(overlaps).toEqual([])
        // What is now is the open version.
        const { rows: different } = await sql`
          select i.symbol from market.instruments i
          left join market.instrument_history h on h.category = i.category and h.symbol = i.symbol and h.valid_to is null
          where (i.disappeared_at is null) <> (h.symbol is not null) or i.status <> h.status`.execute(db)
        expect(different).toEqual([])
      }),
      { numRuns: 60, examples: [[lateOnes]] },
    )
  })
})

describe('RPI symbols', () => {
  it('that come and go have so many periods in a day', async () => {
    const { db } = test.database
    const rows = [{ category: 'SPOT', symbol: 'A' }] as const
    for (let turn = 0; turn < bounds.versions + 5; turn++) {
      await recordRpiSymbols(db, rows, someTime + 2 * turn, { complete: true })
      await recordRpiSymbols(db, [], someTime + 2 * turn + 1, { complete: true })
    }
    const kept = await db.selectFrom('market.rpi_symbols').selectAll().orderBy('valid_from').execute()
    expect(kept).toHaveLength(bounds.versions)
    const last = someTime + 2 * (bounds.versions + 4)
    expect(kept.at(-1)).toMatchObject({ valid_from: last, valid_to: last + 1 })
  })

  it('are kept as periods of membership', async () => {
    const { db } = test.database
    const a = { category: 'SPOT', symbol: 'A' } as const
    const b = { category: 'USDT-FUTURES', symbol: 'B' } as const
    expect(await recordRpiSymbols(db, [a, b, a], someTime, { complete: true })).toEqual({
      inserted: 2,
      updated: 0,
      disappeared: 0,
    })
    expect(await recordRpiSymbols(db, [a, b], someTime + 1, { complete: true })).toMatchObject({
      inserted: 0,
      disappeared: 0,
    })
    expect(await recordRpiSymbols(db, [b], someTime + 2, { complete: false })).toMatchObject({ disappeared: 0 })
    expect(await recordRpiSymbols(db, [b], someTime + 3, { complete: true })).toMatchObject({ disappeared: 1 })
    expect(await recordRpiSymbols(db, [a], someTime + 2, { complete: true })).toMatchObject({
      inserted: 0,
      disappeared: 1,
    })
    expect(await recordRpiSymbols(db, [a, b], someTime + 5, { complete: true })).toMatchObject({ inserted: 2 })
    const rows = await db
      .selectFrom('market.rpi_symbols')
      .selectAll()
      .orderBy('category')
      .orderBy('valid_from')
      .execute()
    expect(rows).toEqual([
      { ...a, valid_from: someTime, valid_to: someTime + 3 },
      { ...a, valid_from: someTime + 5, valid_to: null },
      { ...b, valid_from: someTime, valid_to: someTime + 2 },
      { ...b, valid_from: someTime + 5, valid_to: null },
    ])
  })
})
