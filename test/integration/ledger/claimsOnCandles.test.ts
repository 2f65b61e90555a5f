import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { repairCandles } from '../../../src/history/repairs.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { giveUpOldEvidence } from '../../../src/ledger/verdicts.js'
import type { Candle } from '../../../src/market/candle.js'
import { addMs, minuteMs, serviceMs } from '../../../src/market/values.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { at, every, fillPage, fillRanges, storeAll } from '../../support/fillPages.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { aCandle, anInstrument } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  const tables = ['fills', 'candles', 'instruments', 'instrument_history'].map((name) => sql.table(`market.${name}`))
  await sql`truncate recorder.ledger, recorder.candle_revision, ${sql.join(tables)}`.execute(test.database.db)
})

const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
const prices = { open: '10', high: '11', low: '10', close: '10' }
const candle = (minute: number, volume: number, fields: Partial<Candle> = {}) =>
  aCandle({ ...series, ...prices, openTime: at(minute * minuteMs), baseVolume: String(volume), ...fields })
const forming = (minute: number, volume: number) => candle(minute, volume, { isClosed: false })

/** Stores a live response of candles. */
const showCandles = (second: number, ...rows: readonly Candle[]) =>
  storeBatch(test.database.db, batchOf('candles', { ...series, settleMs: 5_000 }, rows, at(second * 1_000)))

/** Stores a live response with a fill of size 1 in each of these seconds. */
async function showFills(seconds: readonly number[], asked: number, priceOf = (_: number) => '10') {
  const page = fillPage(
    seconds.map((second) => second * 1_000),
    { requested: asked * 1_000 },
  )
  const rows = page.rows.map((row) => ({ ...row, size: '1', price: priceOf((row.ts - at(0)) / 1_000) }))
  await storeAll(test.database.db, [{ ...page, rows }])
}

const inSeconds = (ranges: readonly (readonly number[])[]) => ranges.map((range) => range.map((ms) => ms / 1_000))
const claims = async () => inSeconds(await fillRanges(test.database.db, 'coverage'))
const gaps = async () => inSeconds(await fillRanges(test.database.db, 'gaps'))

/** Ranges of candles in a view, in minutes. */
async function minutesOf(view: string, where = 'true') {
  const { rows } = await test.database.pool.query<{ from: number; to: number }>(
    `select from_time as "from", to_time as "to" from market.${view} where stream = 'candles' and ${where} order by 1`,
  )
  return rows.map(({ from, to }) => [(from - at(0)) / minuteMs, (to - at(0)) / minuteMs])
}

describe('a part of a minute of fills that is claimed because its candle says that nothing came', () => {
  it.each<[string, readonly Candle[]]>([
    ['it was left out', [candle(0, 2), candle(2, 0)]],
    ['it had volume 0', [candle(0, 2), candle(1, 0)]],
  ])('is withdrawn where the candle counts more than is stored: %s at first', async (_, first) => {
    await showFills([10, 20], 79)
    await showCandles(190, ...first)
    expect(await claims()).toEqual([[11, 79]])
    await showCandles(250, candle(0, 2), candle(1, 41), candle(2, 60))
    expect([await claims(), await gaps()]).toEqual([[[11, 60]], [[60, 79]]])
  })

  it.each<[string, readonly Candle[], number]>([
    ['was left out', [candle(0, 2), candle(2, 0)], 111],
    ['had volume 0', [candle(0, 2), candle(1, 0)], 120],
    ['counted what was stored', [candle(0, 2), candle(1, 1)], 120],
  ])('is withdrawn also where other fills of it came before: its candle %s', async (what, first, next) => {
    await showFills([10, 20, ...(what.startsWith('counted') ? [65] : [])], 79)
    await showCandles(190, ...first)
    await showFills(every(1, 110, 210), 215)
    await showCandles(250, candle(0, 2), candle(1, 41))
    expect(await claims()).toEqual([
      [11, 60],
      [next, 209],
    ])
  })

  it('stays where the candle comes late, and counts what is stored', async () => {
    await showFills([10, 20], 79)
    await showCandles(190, candle(0, 2), candle(2, 0))
    await showCandles(250, candle(0, 2), candle(1, 0), candle(2, 0))
    expect([await claims(), await gaps()]).toEqual([[[11, 79]], []])
  })
})

it('a dispute that was given up is claimed again by no candle that counts what is stored', async () => {
  const seconds = every(1, 0, 80)
  await showFills(seconds, 140)
  await showCandles(130, candle(0, 60))
  await showFills(seconds, 141, (second) => (second === 5 ? '11' : '10'))
  const { db } = test.database
  await sql`update recorder.ledger set noted_at = noted_at - interval '91 days' where verdict = 'disputed'`.execute(db)
  await giveUpOldEvidence(db)
  await showCandles(200, candle(0, 60))
  expect([await claims(), await gaps()]).toEqual([
    [
      [1, 5],
      [5.001, 79],
    ],
    [[5, 5.001]],
  ])
})

it('a gap of candles that silence closes is not repaired by a candle that only formed', async () => {
  const options = { db: test.database.db, series: () => [series], settleMs: 5_000, logger: createLogger('silent') }
  const repairAt = (minute: number) => repairCandles(options, serviceMs(at(minute * minuteMs + 6_000)))
  await showCandles(65, candle(0, 5))
  await repairAt(13)
  await showCandles(750, forming(12, 0))
  await repairAt(14)
  expect(await minutesOf('gaps')).toEqual([[1, 13]])
  await showCandles(970, candle(0, 5), candle(15, 5))
  await repairAt(16)
  expect(await minutesOf('gaps')).toEqual([])
})

describe('a forming candle that comes late into a silence', () => {
  it.each<[string, number, readonly number[][], readonly number[][]]>([
    ['ends it if it has volume', 7, [[2, 3]], [[1, 2]]],
    ['says nothing without volume', 0, [[1, 3]], []],
  ])('%s', async (_, volume, silence, missing) => {
    const silent = async () => minutesOf(`no_trade, (values ('candles')) as s (stream)`)
    await showFills([10, 20], 79)
    await showCandles(70, candle(0, 2), forming(1, 0))
    await showCandles(250, candle(0, 2), candle(3, 5))
    expect([await silent(), await claims()]).toEqual([[[1, 3]], [[11, 79]]])
    await showCandles(100, forming(1, volume))
    expect([await silent(), await minutesOf('gaps')]).toEqual([silence, missing])
    expect(await claims()).toEqual([[11, volume > 0 ? 60 : 79]])
    // The next response leaves it out again.
    await showCandles(260, candle(0, 2), candle(3, 5))
    expect([await silent(), await minutesOf('gaps')]).toEqual([silence, missing])
  })
})

describe('candles of an instrument that leaves the list', () => {
  it.each<[string, readonly Candle[], number[][]]>([
    ['its last response shows a forming candle alone', [forming(4, 5)], [[1, 4]]],
    ['no repair looked at what lies between them', [candle(3, 5), forming(4, 5)], [[1, 3]]],
  ])('that were not shown are a gap where %s', async (_, last, missing) => {
    const list = (symbols: readonly string[], second: number) =>
      recordInstruments(
        test.database.db,
        'SPOT',
        symbols.map((symbol) => anInstrument({ symbol })),
        addMs(at(0), second * 1_000),
        { complete: true },
      )
    await list(['BTCUSDT', 'ETHUSDT'], 0)
    await showCandles(65, candle(0, 5), forming(1, 1))
    await showCandles(250, ...last)
    await list(['ETHUSDT'], 310)
    expect(await minutesOf('gaps', `reason like 'the instrument left the list%'`)).toEqual(missing)
  })

  it('are a gap up to a response that is being stored', async () => {
    const { db } = test.database
    const listed = (symbol: string) => anInstrument({ symbol })
    await recordInstruments(db, 'SPOT', [listed('BTCUSDT'), listed('ETHUSDT')], at(0), { complete: true })
    await showCandles(65, candle(0, 5))
    let leaving: Promise<unknown> = Promise.resolve()
    await db.transaction().execute(async (trx) => {
      const last = batchOf('candles', { ...series, settleMs: 5_000 }, [forming(4, 5)], at(250_000))
      await storeBatch(trx, last)
      leaving = recordInstruments(db, 'SPOT', [listed('ETHUSDT')], at(310_000), { complete: true })
      await untilSomebodyWaits(db)
    })
    await leaving
    expect(await minutesOf('gaps', `reason like 'the instrument left the list%'`)).toEqual([[1, 4]])
  })
})
