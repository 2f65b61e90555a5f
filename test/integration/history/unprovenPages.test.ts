import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import { OperationStates } from '../../../src/history/reach.js'
import { repairFutures as wantMissing } from '../../../src/history/repairs.js'
import { claimEvents } from '../../../src/ledger/futures.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { storeBatches } from '../../../src/ledger/storeBatches.js'
import { dayMs, hourMs, minuteMs, secondMs, type TimeMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { repairInVain, wantedRanges } from '../../support/backfill.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const start = Date.UTC(2026, 10, 20, 3, 30)
const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
type Stream = 'liquidations' | 'funding_rates'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() =>
  test.database.pool.query(
    'truncate market.liquidations, market.funding_rates, recorder.ledger, recorder.want, recorder.slice',
  ),
)

/** Stores a live response with rows of these times. */
function show(stream: Stream, times: readonly TimeMs[], requestTime: TimeMs): Promise<unknown> {
  const more =
    stream === 'liquidations'
      ? { side: 'buy', price: '1', amount: '1' }
      : { fundingRate: '0.0001', intervalHours: null }
  const rows = times.map((ts) => ({ ...key, ts, receivedAt: requestTime, extra: {}, ...more }))
  return storeBatches(test.database.db, [
    { stream, target: key, rejected: [], requestTime, receivedAt: requestTime, rows },
  ])
}

const gaps = (stream: Stream) => listGaps(test.database.db, { streams: [stream] })
const claims = (stream: Stream) => coveredRanges(test.database.db, instrumentStream(stream, key))

/** Resolves to what repairs want of a stream. */
async function wanted(stream: Stream, at: TimeMs) {
  const streams = [{ name: stream, keptMs: null }]
  await wantMissing({ db: test.database.db, streams, isOwn: () => true, states: new OperationStates(systemClock) }, at)
  return wantedRanges(test.database.db, key.symbol)
}

/** Shows liquidations that are so dense that each page holds half a minute. */
async function showDense(minutes: number): Promise<TimeMs> {
  let at = start
  for (; at < start + minutes * minuteMs; at += 30 * secondMs) {
    await show(
      'liquidations',
      Array.from({ length: 100 }, (_, place) => at - 4 * secondMs - place * 300),
      at,
    )
  }
  return at - 30 * secondMs
}

describe('pages of which none proves anything', () => {
  it('leave a gap from the first row on, as far as it is settled, which repairs ask for', async () => {
    const at = await showDense(10)
    const first = start - 4 * secondMs - 99 * 300
    const gap = { from: first, to: at - minuteMs }
    expect(await claims('liquidations')).toEqual([])
    expect(await gaps('liquidations')).toMatchObject([{ range: gap, state: 'open' }])
    const ranges = await wanted('liquidations', at)
    expect(ranges.at(-1)?.to).toBe(gap.to)
    expect(ranges.at(0)?.from).toBeLessThanOrEqual(first)
  })

  it('leave one after the last claim, too', async () => {
    await show('liquidations', [start - hourMs, start - 10 * minuteMs], start - 10 * minuteMs)
    const [before] = await claims('liquidations')
    const at = await showDense(10)
    expect(await gaps('liquidations')).toMatchObject([{ range: { from: before?.to, to: at - minuteMs } }])
  })

  it('are not asked for again at once where that was in vain', async () => {
    const at = await showDense(10)
    const ranges = await wanted('liquidations', at)
    await test.database.pool.query('delete from recorder.want')
    await repairInVain(test.database.db, instrumentStream('liquidations', key), ranges, 3)
    await showDense(20)
    expect(await wanted('liquidations', at + 10 * minuteMs)).toEqual([])
  })

  it.each([
    ['liquidations', 10 * minuteMs],
    ['funding_rates', 8 * hourMs],
  ] as const)('of one row of %s are gaps between the rows', async (stream, stepMs) => {
    const hour = Math.floor(start / hourMs) * hourMs
    for (let place = 0; place < 5; place++) {
      const ts = hour + place * stepMs
      await show(stream, [ts], ts + 5 * minuteMs)
      await show(stream, [ts], ts + 8 * minuteMs)
    }
    expect(await claims(stream)).toEqual([])
    expect(await gaps(stream)).toMatchObject([{ range: { from: hour, to: hour + 4 * stepMs } }])
  })

  it('leave no gap once the history has proven its time, but for what came since', async () => {
    const at = await showDense(10)
    const [gap] = await gaps('liquidations')
    const until = at - minuteMs
    await claimEvents(
      test.database.db,
      instrumentStream('liquidations', key),
      [{ from: start - hourMs, to: until }],
      null,
    )
    expect(await gaps('liquidations')).toEqual([])
    const later = await showDense(20)
    expect(await gaps('liquidations')).toMatchObject([{ range: { from: gap?.range.to, to: later - minuteMs } }])
  })
})

describe('no gap is of an instrument', () => {
  it('that shows no liquidation, or the same one', async () => {
    for (let hour = 0; hour < 5; hour++) await show('liquidations', [], start + hour * hourMs)
    for (let hour = 5; hour < 10; hour++) await show('liquidations', [start], start + hour * hourMs)
    expect(await gaps('liquidations')).toEqual([])
    expect(await wanted('liquidations', start + 10 * hourMs)).toEqual([])
  })

  it('whose earlier liquidation has left the history', async () => {
    await show('liquidations', [start], start + minuteMs)
    await show('liquidations', [start + 4 * dayMs], start + 4 * dayMs + hourMs)
    expect(await gaps('liquidations')).toEqual([])
    expect(await wanted('liquidations', start + 4 * dayMs + hourMs)).toEqual([])
  })

  it('whose pages show all liquidations so far, until they are settled', async () => {
    const times = [0, 7, 20, 40, 60].map((seconds) => start + seconds * secondMs)
    for (let shown = 1; shown <= times.length; shown++)
      await show('liquidations', times.slice(0, shown).toReversed(), (times[shown - 1] ?? start) + secondMs)
    expect(await gaps('liquidations')).toEqual([])
  })
})
