import { afterAll, beforeAll, expect, it } from 'vitest'
import { instrumentStream } from '../../../src/db/series.js'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import { fillHistory } from '../../../src/history/pastFills.js'
import type { Fill } from '../../../src/market/rows.js'
import { hourMs, secondMs } from '../../../src/market/values.js'
import { storeAll } from '../../support/fillPages.js'
import { batchOf } from '../../support/batches.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'

const now = Date.UTC(2026, 10, 20)
const second = now - 3 * hourMs
const category = 'SPOT'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())

/** A service whose history shows whole seconds, and compares the bounds of a request with the seconds that it shows. */
function serviceOf(truth: readonly Fill[], isOldestFirst: boolean): ExchangeClient {
  const pageOf = (rows: readonly Fill[]) =>
    Promise.resolve({ rows, rejected: [], unkept: 0, receivedAt: now, requestTime: now } as unknown as Page<Fill>)
  const shown = truth.map((fill) => ({ ...fill, ts: fill.ts - (fill.ts % secondMs) }))
  return {
    fills: () => pageOf(truth.slice(-15).toReversed()),
    pastFills: ({ startTime = 0, endTime = 0, limit = 0 }) => {
      const rows = shown.filter(({ ts }) => ts >= startTime && ts <= endTime)
      return pageOf(isOldestFirst ? rows.slice(0, limit) : rows.slice(-limit).toReversed())
    },
  } as unknown as ExchangeClient
}

/** Records fills live but for some, and repairs their gap. Resolves to what is claimed of it, and what it lacks. */
async function repaired(symbol: string, truth: readonly Fill[], from: number, to: number, isOldestFirst = false) {
  const { db } = test.database
  const live = (rows: readonly Fill[]) =>
    batchOf('fills', { category, symbol }, rows.toReversed(), (rows.at(-1)?.ts ?? 0) + 10_000)
  await storeAll(db, [live(truth.slice(0, from))])
  await storeAll(db, [live(truth.slice(to))])
  const [last, next] = [truth[from - 1]?.ts ?? NaN, truth[to]?.ts ?? NaN]
  const series = { ...instrumentStream('fills', { category, symbol }), category } as const
  const context = { request: {}, now: () => now, counts: { received: 0, inserted: 0 } }
  const ask = (request: () => Promise<unknown>) => request()
  const history = fillHistory(db)
  // An older fill of another instrument shows how far the history reaches back.
  const old = [1, 2, 3].map((age) => aFill({ category, symbol: 'OLD', ts: second - age * hourMs, execId: `${age}` }))
  const client = serviceOf(old.toReversed(), isOldestFirst)
  await history.fetch({ ...series, symbol: 'OLD' }, [{ from: second - 3 * hourMs, to: second }], {
    ...context,
    client,
    ask,
  } as never)
  const wanted = { from: last, to: next + 1 }
  await history.fetch(series, [wanted], { ...context, client: serviceOf(truth, isOldestFirst), ask } as never)
  const { rows } = await test.database.pool.query<{ id: string }>(
    'select exec_id as id from market.fills where symbol = $1',
    [symbol],
  )
  const stored = new Set(rows.map(({ id }) => id))
  const claimed = await coveredRanges(db, instrumentStream('fills', { category, symbol }))
  const isClaimed = ({ ts }: Fill) => claimed.some((range) => ts >= range.from && ts < range.to)
  return { claimed, lacking: truth.filter((fill) => !stored.has(fill.execId) && isClaimed(fill)) }
}

function tapeOf(symbol: string, times: readonly number[]): Fill[] {
  return times.map((ms, place) => aFill({ category, symbol, ts: second + ms, execId: `${symbol} ${place}` }))
}
const everySecond = (from: number, to: number) =>
  Array.from({ length: (to - from) / secondMs }, (_, place) => from + place * secondMs + 137)

it.each([
  ['newest first', 1_200, 1_000, false],
  ['newest first, of a tenth of the second', 1_200, 100, false],
  ['newest first, several pages', 2_500, 1_000, false],
  ['oldest first', 1_200, 1_000, true],
] as const)(
  'a second with more fills than a page is not claimed in part: %s',
  async (name, fills, spreadMs, oldest) => {
    const crowd = Array.from({ length: fills }, (_, place) => Math.floor((place * spreadMs) / fills))
    const tape = tapeOf(name, [...everySecond(-60_000, -10_000), ...crowd, ...everySecond(10_000, 60_000)])
    const { claimed, lacking } = await repaired(name, tape, 50, 50 + fills, oldest)
    expect(lacking).toEqual([])
    // Only this second stays a gap, with the millisecond before it, which a request cannot tell from it.
    expect(claimed).toMatchObject([{ to: expect.toBeOneOf([second - 1, second]) as number }, { from: second + 1_000 }])
  },
)
