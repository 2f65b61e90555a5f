import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { contradictedShares, giveUpOldEvidence, standingEvidence } from '../../../src/ledger/verdicts.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import type { Fill } from '../../../src/market/rows.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { addMs, minuteMs, serviceMs } from '../../../src/market/values.js'
import { instrumentStream } from '../../../src/db/series.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aCandle, aFill, anInstrument, someTime } from '../../support/marketRows.js'
import { addCoverage } from '../../support/coverage.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  const tables = ['fills', 'candles', 'instruments', 'instrument_history'].map((name) => sql.table(`market.${name}`))
  await sql`truncate recorder.ledger, ${sql.join(tables)}`.execute(test.database.db)
})

const start = Math.ceil(someTime / minuteMs) * minuteMs
const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const
/** A fill each second, half a second after its beginning. */
const fill = (second: number, fields: Partial<Fill> = {}) =>
  aFill({ execId: String(second), ts: start + second * 1_000 + 500, size: '2', price: '10', ...fields })

interface PageOptions {
  readonly without?: readonly number[]
  readonly requested?: number
  readonly changed?: readonly Fill[]
}

/** A page of the fills of these seconds, asked for ten seconds after the last one. */
async function storePage(from: number, to: number, options: PageOptions = {}): Promise<void> {
  const { without = [], requested = to + 10, changed = [] } = options
  const seconds = Array.from({ length: to - from + 1 }, (_, index) => to - index)
  const rows = seconds
    .filter((second) => !without.includes(second))
    .map((second) => changed.find(({ execId }) => execId === String(second)) ?? fill(second))
  await storeBatch(test.database.db, batchOf('fills', instrument, rows, start + requested * 1_000))
}

/** A closed candle of a minute, by default with 60 fills of size 2. */
const candle = (minute: number, fields: Partial<ReturnType<typeof aCandle>> = {}) =>
  aCandle({
    openTime: start + minute * minuteMs,
    baseVolume: '120',
    open: '10',
    high: '10',
    low: '10',
    close: '10',
    ...fields,
  })
const store = (...candles: ReturnType<typeof candle>[]) => storeCandles(test.database.db, candles)

/** Stores a page of a history that was asked for the first three minutes. */
const readBack = (fills: readonly Fill[], isUnderstood = true) => {
  const asked = { from: start, to: start + 181_000 }
  const page = { asked, other: null, reachesTo: start, largest: 1_000, disorderMs: 0, requestTime: start + 500_000 }
  return storePastFills(test.database.db, instrument, { ...page, fills, unread: isUnderstood ? [] : [asked] })
}

async function rangesOf(view: string, condition = 'true'): Promise<[number, number][]> {
  const { rows } = await sql<TimeRange>`
    select from_time as "from", to_time as "to" from ${sql.table(view)}
    where stream = 'fills' and ${sql.raw(condition)} order by 1`.execute(test.database.db)
  return rows.map(({ from, to }) => [(from - start) / 1_000, (to - start) / 1_000])
}
const claimed = () => rangesOf('market.coverage')
const open = () => rangesOf('market.gaps', `state = 'open'`)
const repaired = () => rangesOf('market.gaps', `state = 'repaired'`)

describe('a candle that counts more than the stored fills', () => {
  it('withdraws its minute, whichever comes later, and later pages do not bring it back without the fills', async () => {
    await storePage(0, 200, { without: [130, 131] })
    expect(await claimed()).toEqual([[0.501, 200.5]])
    await store(candle(1), candle(2))
    expect(await claimed()).toEqual([
      [0.501, 120],
      [180, 200.5],
    ])
    expect(await open()).toEqual([[120, 180]])
    // Pages that overlap the minute hide the same fills for good.
    await storePage(100, 210, { without: [130, 131] })
    await storePage(110, 250, { without: [130, 131] })
    expect(await claimed()).toEqual([
      [0.501, 120],
      [180, 250.5],
    ])
    expect(await open()).toEqual([[120, 180]])
    expect(await repaired()).toEqual([])
    // The fills come: the minute is claimed, and the gap is repaired.
    await storePage(100, 250)
    expect(await claimed()).toEqual([[0.501, 250.5]])
    expect([await open(), await repaired()]).toEqual([[], [[120, 180]]])
    expect(await standingEvidence(test.database.db)).toEqual([])
  })

  it('also withdraws it where the candle was there before the fills', async () => {
    await store(candle(1), candle(2))
    await storePage(0, 200, { without: [130] })
    expect(await open()).toEqual([[120, 180]])
  })

  it('also stands against what a history claims, long ago', async () => {
    await store(candle(1), candle(2))
    const fills = Array.from({ length: 180 }, (_, second) => fill(second)).filter(({ execId }) => execId !== '130')
    await insertFills(test.database.db, fills)
    await addCoverage(test.database.db, instrumentStream('fills', instrument), [{ from: start, to: start + 180_000 }])
    expect(await claimed()).toEqual([[0, 120]])
    expect(await open()).toEqual([[120, 180]])
  })

  it('ends where a history gives what it left out, though no live response ever showed the minute', async () => {
    const fills = Array.from({ length: 181 }, (_, second) => fill(180 - second))
    await readBack(fills.filter(({ execId }) => execId !== '130'))
    await store(candle(1), candle(2))
    expect(await open()).toEqual([[120, 180]])
    await readBack(fills)
    expect(await claimed()).toEqual([[0.501, 180.5]])
    expect([await open(), await repaired()]).toEqual([[], [[120, 180]]])
    expect(await standingEvidence(test.database.db)).toEqual([])
  })

  it('says nothing of a minute that is claimed in part', async () => {
    await storePage(90, 170)
    await store(candle(1), candle(2))
    expect(await claimed()).toEqual([[90.501, 170.5]])
    expect(await open()).toEqual([])
  })

  it('that is corrected later withdraws the claim as well', async () => {
    await store(candle(1))
    await storePage(0, 200)
    expect(await open()).toEqual([])
    await store(candle(1, { baseVolume: '121' }))
    expect(await open()).toEqual([[60, 120]])
    await store(candle(1))
    // Nothing was missing after all, so that nothing was repaired.
    expect([await open(), await repaired()]).toEqual([[], []])
    expect(await claimed()).toEqual([[0.501, 200.5]])
  })

  it('stands for 90 days; then its gap is lost', async () => {
    const { db } = test.database
    await storePage(0, 200, { without: [130, 190] })
    await store(candle(2))
    expect(await contradictedShares(db)).toEqual([{ category: 'SPOT', share: 1 / 1440 }])
    expect(await standingEvidence(db)).toMatchObject([{ stream: 'fills', from: start + 120_000 }])
    await giveUpOldEvidence(db)
    expect(await open()).toEqual([[120, 180]])
    await sql`update recorder.ledger set noted_at = noted_at - interval '91 days' where verdict = 'contradicted'`.execute(
      db,
    )
    // The gap goes on with minutes whose evidence is younger.
    await storePage(150, 300, { without: [190, 250] })
    await store(candle(3), candle(4))
    expect(await open()).toEqual([[120, 300]])
    await giveUpOldEvidence(db)
    expect(await open()).toEqual([[180, 300]])
    expect(await rangesOf('market.gaps', `state = 'lost'`)).toEqual([[120, 180]])
    expect(await standingEvidence(db)).toMatchObject([{ from: start + 240_000 }, { from: start + 180_000 }])
  })
})

describe('prices that do not fit the candle', () => {
  const foreign = fill(130, { price: '7' })

  it('contradict a minute whose volume agrees: a fill of another instrument', async () => {
    await storePage(0, 200, { changed: [foreign] })
    await store(candle(1), candle(2))
    expect(await claimed()).toEqual([
      [0.501, 120],
      [180, 200.5],
    ])
    expect(await open()).toEqual([[120, 180]])
    await storePage(100, 220, { changed: [foreign] })
    expect(await open()).toEqual([[120, 180]])
    expect(await repaired()).toEqual([])
  })

  it.each([
    ['a live response', () => storePage(100, 220, { changed: [foreign] })],
    ['a page of the history that proves nothing', () => readBack([fill(131), foreign, fill(129)], false)],
  ])('contradict a claimed minute that %s adds to', async (_, showFill) => {
    await storePage(0, 200, { without: [130] })
    await store(candle(1), candle(2, { baseVolume: '118' }))
    expect(await open()).toEqual([])
    await showFill()
    expect(await open()).toEqual([[120, 180]])
  })

  it('contradict where the first or the last fill is not the open or the close', async () => {
    await storePage(0, 200, { changed: [fill(60, { price: '9' }), fill(179, { price: '9' })] })
    await store(candle(1, { low: '9' }), candle(2, { low: '9' }))
    expect(await open()).toEqual([[60, 180]])
  })

  it('do not contradict where one of the fills of the first millisecond has the price of the open', async () => {
    const twin = fill(60, { execId: 'twin', price: '9', size: '3' })
    await insertFills(test.database.db, [twin])
    await storePage(0, 59, { requested: 70 })
    const rows = [...Array.from({ length: 141 }, (_, index) => fill(200 - index)), twin, fill(59), fill(58)]
    await storeBatch(test.database.db, batchOf('fills', instrument, rows, start + 210_000))
    await store(candle(1, { open: '9', low: '9', baseVolume: '123' }))
    expect(await open()).toEqual([])
    expect(await claimed()).toEqual([[0.501, 200.5]])
  })
})

describe('a millisecond', () => {
  const seconds = Array.from({ length: 60 }, (_, second) => fill(59 - second))

  it('is disputed by a history that gives one of its fills another price, until a page agrees', async () => {
    await storePage(0, 59)
    const flapping = seconds.map((row) => (row.execId === '30' ? { ...row, price: '11' } : row))
    expect(await readBack(flapping)).toMatchObject({ refusal: 'other values' })
    const rest = [
      [0.501, 30.5],
      [30.501, 59.5],
    ]
    expect(await claimed()).toEqual(rest)
    expect(await open()).toEqual([[30.5, 30.501]])
    // Nothing that does not show the fill again brings the millisecond back.
    await storePage(31, 70)
    expect([await open(), await repaired()]).toEqual([[[30.5, 30.501]], []])
    expect(await readBack(seconds)).toMatchObject({ refusal: null })
    expect([await open(), await repaired()]).toEqual([[], []])
    expect(await claimed()).toEqual([[0.501, 70.5]])
  })

  it('is not disputed by a history that agrees with no stored fill: nothing of it is believed', async () => {
    await storePage(0, 59)
    expect(await readBack(seconds.map((row) => ({ ...row, size: '3' })))).toMatchObject({ refusal: 'other values' })
    expect(await claimed()).toEqual([[0.501, 59.5]])
  })
})

describe('a minute whose candle agrees with the fills', () => {
  it('is claimed up to the newest response: nothing else was traded', async () => {
    await storePage(10, 40, { requested: 50 })
    await store(candle(0, { baseVolume: '62' }), candle(1, { baseVolume: '0' }), candle(2, { baseVolume: '0' }))
    expect(await claimed()).toEqual([[10.501, 50]])
    // The next response shows nothing new, and was asked for after two of the minutes.
    await storePage(10, 40, { requested: 130 })
    expect(await claimed()).toEqual([[10.501, 120]])
    expect(await open()).toEqual([])
  })

  it('is no gap: two responses adjoined without a shared fill', async () => {
    await storePage(10, 79)
    await storePage(80, 180)
    expect(await open()).toEqual([[79.5, 80.501]])
    await store(candle(1))
    expect([await open(), await repaired()]).toEqual([[], []])
    expect(await claimed()).toEqual([[10.501, 180.5]])
  })

  it('is claimed where one response of candles leaves it out between two', async () => {
    await storePage(10, 40, { requested: 50 })
    await storePage(10, 40, { requested: 250 })
    const silence = [{ from: start + minuteMs, to: start + 2 * minuteMs }]
    await storeCandles(test.database.db, [candle(0, { baseVolume: '1' }), candle(2, { baseVolume: '0' })], silence)
    expect((await claimed()).join(' ')).toBe('10.501,40.5 60,180')
    expect(await open()).toEqual([[40.5, 60]])
  })

  it('is not claimed where no response was asked for after it', async () => {
    await store(candle(0, { baseVolume: '0' }), candle(1, { baseVolume: '0' }))
    expect(await claimed()).toEqual([])
  })
})

describe('the first page of a thin instrument', () => {
  /** The oldest fill of a page that begins years ago, and 60 fills of the minute 40 days ago. */
  const years = -16 * 365 * 86_400
  const days = -40 * 86_400
  const rows = [fill(30), ...Array.from({ length: 60 }, (_fill, second) => fill(days + 59 - second)), fill(years)]
  const storeThinPage = () => storeBatch(test.database.db, batchOf('fills', instrument, rows, start + 300_000))

  it('is stored in the time of a statement, however old its oldest fill is', async () => {
    const stored = await test.database.db.connection().execute(async (db) => {
      await sql`set statement_timeout = '120s'`.execute(db)
      try {
        return await storeBatch(db, batchOf('fills', instrument, rows, start + 300_000))
      } finally {
        await sql`reset statement_timeout`.execute(db)
      }
    })
    expect(stored).toMatchObject({ inserted: 62, gapsFound: 0 })
    expect(await claimed()).toEqual([[years + 0.501, 30.5]])
  })

  it('is compared with each candle of its time', async () => {
    const ofThen = days / 60
    await store(candle(ofThen - 1, { baseVolume: '0' }), candle(ofThen), candle(ofThen + 1, { baseVolume: '7' }))
    await storeThinPage()
    expect(await open()).toEqual([[days + 60, days + 120]])
  })
})

describe('an instrument that leaves the list', () => {
  it.each([
    ['its last claim', 40, [[10.501, 39]], [39, 41]],
    ['its first fill, if none is claimed,', 11, [], [10.501, 12]],
  ])('has a gap from %s to its last response, with that reason', async (_, last, claims, gap) => {
    const { db } = test.database
    const at = serviceMs(start)
    await recordInstruments(db, 'SPOT', [anInstrument(), anInstrument({ symbol: 'ETHUSDT' })], at, { complete: true })
    await storePage(10, last, { requested: last + 1 })
    expect(await claimed()).toEqual(claims)
    expect(await open()).toEqual([])
    const others = [anInstrument({ symbol: 'ETHUSDT' })]
    await recordInstruments(db, 'SPOT', others, addMs(at, 60_000), { complete: true })
    expect(await open()).toEqual([gap])
    const { rows } = await sql<{ reason: string }>`select reason from market.gaps`.execute(db)
    expect(rows.map(({ reason }) => reason).join()).toMatch(/^the instrument left the list/)
  })
})

describe('time that history has claimed since the newest live response', () => {
  it.each([
    ['after', 300, [[230, 300.501]]],
    ['joined to', 229, []],
  ])('hides no gap before it from a live response %s it', async (_, from, after) => {
    await storePage(40, 80, { requested: 81 })
    const fills = Array.from({ length: 31 }, (_fill, index) => fill(200 + index))
    await insertFills(test.database.db, fills)
    const claim = { from: start + 200_000, to: start + 230_000 }
    await addCoverage(test.database.db, instrumentStream('fills', instrument), [claim])
    // A response might still join what is not settled.
    expect(await open()).toEqual([[80.5, 200]])
    await storePage(from, from + 30)
    expect(await open()).toEqual([[79, 80.5], [80.5, 200], ...after])
  })
})
