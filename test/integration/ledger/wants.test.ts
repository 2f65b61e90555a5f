import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { CandleSeries } from '../../../src/market/candle.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { candleStream } from '../../../src/db/series.js'
import { addEmptyRanges } from '../../../src/ledger/missing.js'
import {
  type Slice,
  endSatisfiedWants,
  extendLeases,
  type OpenWant,
  settleSlice,
  takeSlice,
  unreadRanges,
} from '../../../src/ledger/slices.js'
import { cancelBackfills, insertWants, type NewWant, rangeOutcomes, wantStates } from '../../../src/ledger/wants.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { addCoverage } from '../../support/coverage.js'

const minuteMs = 60_000
const base = Date.UTC(2026, 0, 1)
const minutes = (from: number, to: number): TimeRange => ({ from: base + from * minuteMs, to: base + to * minuteMs })
const seriesOf = (symbol: string): CandleSeries => ({ category: 'SPOT', symbol, type: 'market', interval: '1m' })
const nothing = { requests: 0, received: 0, inserted: 0, updated: 0 }

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await test.database.pool.query('truncate recorder.want, recorder.slice, recorder.ledger')
})

function want(symbol: string, range: TimeRange, more: Partial<NewWant> = {}): NewWant {
  const flags = { again: false, isUrgent: false, hasOpenBeginning: false }
  return {
    kind: 'backfill',
    series: candleStream(seriesOf(symbol)),
    ranges: [range],
    floor: range.from,
    ...flags,
    ...more,
  }
}

const whole = ({ ranges }: OpenWant) => ranges
/** The newest so many minutes. */
const newest = (count: number) => (open: OpenWant) => {
  const { from, to } = open.ranges.at(-1) ?? { from: 0, to: 0 }
  return [{ from: Math.max(from, to - count * minuteMs), to }]
}

/** Null when nothing is to be taken. */
const tryTake = (worker = 'one', cut: (open: OpenWant) => readonly TimeRange[] = whole) =>
  takeSlice(test.database.db, worker, cut, ['candles'])

async function take(cut: (open: OpenWant) => readonly TimeRange[] = whole, worker = 'one'): Promise<Slice> {
  const slice = await tryTake(worker, cut)
  if (slice === null) throw new Error('nothing was to be taken')
  return slice
}

/** The leases of a worker end, as if time had passed. */
const endLeases = (worker: string) =>
  test.database.pool.query('update recorder.slice set leased_until = now() where leased_by = $1', [worker])

const settle = (slice: Slice, result: Partial<Parameters<typeof settleSlice>[2]> = {}) =>
  test.database.db
    .transaction()
    .execute((trx) => settleSlice(trx, slice, { done: slice.ranges, ...nothing, ...result }))

describe('what is missing of a want', () => {
  it('is what is neither covered, nor proven empty, nor asked for since', async () => {
    const { db } = test.database
    const [id = 0] = await insertWants(db, [want('A', minutes(0, 100))])
    await addCoverage(db, candleStream(seriesOf('A')), [minutes(20, 30)])
    await addEmptyRanges(db, seriesOf('A'), [minutes(0, 10)])
    const slice = await take(newest(40))
    expect(slice.ranges).toEqual([minutes(60, 100)])
    await settle(slice, { requests: 3, received: 2, inserted: 1 })
    expect(await wantStates(db, { ids: [id] })).toMatchObject([
      {
        isEnded: false,
        isRunning: false,
        total: 100,
        left: 40,
        reachedAt: minutes(0, 60).to,
        requests: 3,
        inserted: 1,
      },
    ])
    const rest = await take()
    expect(rest.ranges).toEqual([minutes(10, 20), minutes(30, 60)])
    await settle(rest)
    expect(await wantStates(db, { ids: [id] })).toMatchObject([{ isEnded: true, left: 0, reachedAt: null }])
    expect(await tryTake()).toBeNull()
  })

  it('is all of it when it is to be read again, whatever is covered', async () => {
    const { db } = test.database
    await addCoverage(db, candleStream(seriesOf('A')), [minutes(0, 100)])
    await insertWants(db, [want('A', minutes(0, 100), { again: true }), want('A', minutes(0, 100))])
    const slice = await take()
    expect(slice).toMatchObject({ again: true, ranges: [minutes(0, 100)] })
    await settle(slice)
    expect(await tryTake()).toBeNull()
  })

  it('ends a want when others have got what it is about', async () => {
    const { db } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 10)), want('B', minutes(0, 10))])
    await addCoverage(db, candleStream(seriesOf('A')), [minutes(0, 10)])
    expect((await take()).series.symbol).toBe('B')
    await endSatisfiedWants(db)
    expect((await wantStates(db, { ids })).map(({ isEnded, isRunning }) => [isEnded, isRunning])).toEqual([
      [true, false],
      [false, true],
    ])
  })
})

describe('wants', () => {
  it('go in order: repairs, instruments about to be delisted, newer candles before older ones, reviews', async () => {
    await insertWants(test.database.db, [
      want('OLDER', minutes(0, 50)),
      want('REVIEW', minutes(0, 500), { kind: 'review', again: true }),
      want('NEWER', minutes(0, 60)),
      want('URGENT', minutes(0, 10), { isUrgent: true }),
      want('REPAIR', minutes(0, 5), { kind: 'repair' }),
    ])
    const order = []
    for (let slice = await tryTake(); slice !== null; slice = await tryTake()) {
      order.push(slice.series.symbol)
    }
    expect(order).toEqual(['REPAIR', 'URGENT', 'NEWER', 'OLDER', 'REVIEW'])
  })

  it('of a series that is wanted already are that want, which grows', async () => {
    const { db } = test.database
    const repair = { kind: 'repair' } as const
    const [first = 0] = await insertWants(db, [want('A', minutes(50, 100), repair)])
    const more = [want('A', minutes(60, 70), repair), want('A', minutes(20, 130), repair)]
    expect(await insertWants(db, more)).toEqual([first])
    expect(await wantStates(db, { ids: [first] })).toMatchObject([{ total: 110, left: 110 }])
    expect(await insertWants(db, [want('A', minutes(20, 30))])).not.toEqual([first])
    const review = { kind: 'review', again: true } as const
    const [one] = await insertWants(db, [want('A', minutes(0, 50), review)])
    expect(await insertWants(db, [want('A', minutes(20, 30), review)])).toEqual([one])
    expect(await insertWants(db, [want('A', minutes(20, 60), review)])).not.toEqual([one])
  })

  it('of a backfill wait for no other one, and the newest backfill goes first', async () => {
    const { db } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 100)), want('B', minutes(0, 200))])
    await settle(await take(newest(50)))
    const [own = 0] = await insertWants(db, [want('A', minutes(20, 40))])
    expect(ids).not.toContain(own)
    const slice = await take()
    expect(slice).toMatchObject({ wantId: own, ranges: [minutes(20, 40)] })
    const [further = 0] = await insertWants(db, [want('A', minutes(0, 300))])
    expect([...ids, own]).not.toContain(further)
    await settle(slice)
    expect((await wantStates(db, { ids: [...ids, own, further] })).map(({ left }) => left)).toEqual([80, 150, 0, 280])
    expect(await insertWants(db, [want('B', minutes(0, 150))]), 'what is left of it continues it').toEqual([ids[1]])
    expect((await take(newest(10))).ranges).toEqual([minutes(140, 150)])
    const again = { again: true } as const
    const [read = 0] = await insertWants(db, [want('C', minutes(0, 100), again)])
    expect(await insertWants(db, [want('C', minutes(0, 130), again)]), 'begun a little later').toEqual([read])
    expect(await insertWants(db, [want('C', minutes(0, 90), again)])).not.toEqual([read])
  })

  it('that are asked for anew are requested anew, less what is stored or was read again', async () => {
    const { db } = test.database
    await insertWants(db, [want('A', minutes(0, 100))])
    await settle(await take(newest(40)), { failure: 'the service refuses it' })
    await addCoverage(db, candleStream(seriesOf('A')), [minutes(0, 10), minutes(95, 100)])
    const [id = 0] = await insertWants(db, [want('A', minutes(0, 100))])
    expect(await wantStates(db, { ids: [id] })).toMatchObject([{ failure: null, left: 85 }])
    await settle(await take())
    await insertWants(db, [want('B', minutes(0, 100), { again: true })])
    await settle(await take(newest(40)))
    await settle(await take(newest(20)), { failure: 'the service refuses it' })
    await settle(await take(newest(10)), { refused: [minutes(32, 35)] })
    const [again = 0] = await insertWants(db, [want('B', minutes(0, 50), { again: true })])
    expect(await unreadRanges(db, [id, again])).toMatchObject([
      { unread: [minutes(0, 30), minutes(32, 35), minutes(40, 60)] },
    ])
    expect((await take()).ranges).toEqual([minutes(0, 30), minutes(32, 35), minutes(40, 50)])
  })

  it('that are cancelled end, and their slices with them', async () => {
    const { db } = test.database
    const ids = await insertWants(db, [
      want('A', minutes(0, 100)),
      want('B', minutes(0, 100)),
      want('A', minutes(0, 10), { kind: 'repair' }),
    ])
    const slices = [await take(), await take(newest(50)), await take(newest(50))]
    const cancelled = await cancelBackfills(db, { isSymbol: (symbol) => symbol === 'A', intervals: ['1m'] })
    expect(cancelled).toEqual([candleStream(seriesOf('A'))])
    expect((await wantStates(db, { ids })).map(({ isEnded, problem }) => [isEnded, problem])).toEqual([
      [true, 'cancelled'],
      [false, null],
      [false, null],
    ])
    const held = await extendLeases(db, 'one', slices)
    expect(slices.map(({ kind, series, id }) => [kind, series.symbol, held.has(id)])).toEqual([
      ['repair', 'A', true],
      ['backfill', 'A', false],
      ['backfill', 'B', true],
    ])
    expect(await cancelBackfills(db, { isSymbol: () => true, types: ['mark'] })).toEqual([])
  })

  it('of one series never have the same candles fetched twice', async () => {
    const { db } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 100)), want('A', minutes(50, 150))])
    const slices = [await take(newest(80)), await take(newest(80))]
    expect(slices.map(({ ranges }) => ranges)).toEqual([[minutes(70, 150)], [minutes(0, 70)]])
    expect(await tryTake()).toBeNull()
    for (const slice of slices) await settle(slice, { requests: 1 })
    expect(await tryTake()).toBeNull()
    expect((await wantStates(db, { ids })).every(({ isEnded }) => isEnded)).toBe(true)
  })

  it('whose series the service refuses end at once, and say why', async () => {
    const { db } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 100))])
    await settle(await take(newest(10)), { done: 'series', failure: 'there is no such interval', requests: 1 })
    expect(await wantStates(db, { ids })).toMatchObject([{ isEnded: true, failure: 'there is no such interval' }])
    expect(await wantStates(db, { limit: 10 })).toHaveLength(1)
    expect(await tryTake()).toBeNull()
  })

  it('wait some seconds after an attempt that was broken off, and go on where it ended', async () => {
    const { db, pool } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 100))])
    const slice = await take()
    await addCoverage(db, candleStream(seriesOf('A')), [minutes(90, 100)])
    await settle(slice, { done: [], problem: 'the service is away' })
    expect(await wantStates(db, { ids })).toMatchObject([{ isEnded: false, problem: 'the service is away', left: 90 }])
    expect(await tryTake()).toBeNull()
    await pool.query(`update recorder.want set retry_at = now()`)
    const again = await take()
    expect(again.ranges).toEqual([minutes(0, 90)])
    await settle(again)
    expect(await wantStates(db, { ids })).toMatchObject([{ isEnded: true, problem: null }])
  })
})

describe('a slice', () => {
  it('is missing again when its lease ends, and not before', async () => {
    const { db } = test.database
    await insertWants(db, [want('MINE', minutes(0, 20)), want('THEIRS', minutes(0, 10))])
    const mine = await take()
    expect((await take(whole, 'other')).series.symbol).toBe('THEIRS')
    expect(await tryTake()).toBeNull()
    await extendLeases(db, 'one', [mine])
    await endLeases('other')
    expect((await take()).series.symbol).toBe('THEIRS')
    expect(await tryTake('other')).toBeNull()
  })

  it('stays with a worker that extends its lease in time, and not with one that comes too late', async () => {
    const { db } = test.database
    await insertWants(db, [want('A', minutes(0, 20))])
    const slice = await take()
    await endLeases('one')
    await extendLeases(db, 'one', [slice])
    expect(await tryTake('other')).toBeNull()
    await endLeases('one')
    const theirs = await take(whole, 'other')
    await extendLeases(db, 'one', [slice])
    await settle(slice)
    expect(await tryTake()).toBeNull()
    await settle(theirs)
  })

  it('is given up when its worker could not say what came of it', async () => {
    await insertWants(test.database.db, [want('A', minutes(0, 20))])
    await take()
    expect(await tryTake()).toBeNull()
    await extendLeases(test.database.db, 'one', [])
    expect((await take()).ranges).toEqual([minutes(0, 20)])
  })

  it('that somebody else has by now says nothing any more', async () => {
    const { db, pool } = test.database
    const ids = await insertWants(db, [want('A', minutes(0, 20))])
    const slice = await take()
    await pool.query('delete from recorder.slice')
    await settle(slice, { requests: 7 })
    expect(await wantStates(db, { ids })).toMatchObject([{ isEnded: false, requests: 0 }])
  })
})

it('what is known of ranges besides their candles is told for all series at once', async () => {
  const { db } = test.database
  await addEmptyRanges(db, seriesOf('B'), [minutes(0, 10)])
  await recordGap(db, { ...candleStream(seriesOf('B')), range: minutes(40, 60), reason: 'away' })
  await recordGap(db, { ...candleStream(seriesOf('B')), range: minutes(20, 30), reason: 'too old', verdict: 'lost' })
  const asked = (symbol: string) => ({ series: candleStream(seriesOf(symbol)), missing: [minutes(5, 50)] })
  expect(await rangeOutcomes(db, [asked('A'), asked('B')])).toEqual([
    [],
    [
      { ...minutes(5, 10), verdict: 'before the beginning', reason: null },
      { ...minutes(20, 30), verdict: 'lost', reason: 'too old' },
      { ...minutes(40, 50), verdict: 'missing', reason: 'away' },
    ],
  ])
})
