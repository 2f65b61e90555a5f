import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillsPerPage, rejectedRow } from '../../../src/market/rows.js'
import { storeFills } from '../../../src/ledger/storeFills.js'
import { createRandom } from '../../../src/simulator/world/hash.js'
import { coveredRanges } from '../../support/coverage.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/**
 * Times of fills: single ones, and sweeps of up to some hundred within a millisecond, often in one millisecond after the
 * other. They do not begin with a second: a page of that time alone could be of a service that counts in seconds.
 */
function flow(random: () => number): number[] {
  const times: number[] = []
  for (let ts = 1_760_000_000_123; times.length < 900; ts += random() < 0.5 ? 1 : Math.ceil(random() * 40)) {
    const count = random() < 0.3 ? Math.ceil(random() * 350) : 1 + Math.floor(random() * 3)
    for (let i = 0; i < count; i++) times.push(ts)
  }
  return times
}

/** How many fills have happened at each answer; never exactly a page more: what adjoins cannot be told from a loss. */
function answers(random: () => number, total: number): number[] {
  const happened: number[] = []
  for (let count = 60 + Math.floor(random() * 140); count < total;) {
    happened.push(count)
    const more = Math.ceil(random() * 190)
    count += more === fillsPerPage ? more + 1 : more
  }
  return happened
}

test('sweeps that fill whole answers: every loss lies in a gap, no gap is without one, and nothing is proven falsely', async () => {
  let [lostInSweeps, gapCount] = [0, 0]
  for (let seed = 1; seed <= 25; seed++) {
    const random = createRandom(seed)
    const times = flow(random)
    const symbol = `SWEEP${seed}USDT`
    const series = { stream: 'fills', category: 'SPOT', symbol, type: '', interval: '' } as const
    const stored = new Set<number>()
    for (const happened of answers(random, times.length)) {
      const first = Math.max(0, happened - fillsPerPage)
      const rows = times.slice(first, happened).map((ts, i) => {
        stored.add(first + i)
        return aFill({ symbol, ts, execId: String(first + i) })
      })
      const at = (times[happened - 1] ?? 0) + 60_000
      const target = { category: 'SPOT', symbol } as const
      const batch = { stream: 'fills', target, requestTime: at, receivedAt: at, rows, rejected: [] } as const
      await database.database.db.transaction().execute((trx) => storeFills(trx, [batch]))
    }
    const covered = await coveredRanges(database.database.db, series)
    const gaps = (await listGaps(database.database.db)).filter((gap) => gap.symbol === symbol).map(({ range }) => range)
    const isIn = (ts: number) => (range: { from: number; to: number }) => range.from <= ts && ts < range.to
    const lastStored = Math.max(...stored)
    // Nobody knows when recording began within the millisecond of the first fill.
    const since = times[Math.min(...stored)] ?? Infinity
    const lost = [...times.keys()].filter((i) => (times[i] ?? 0) > since && i < lastStored && !stored.has(i))
    for (const index of lost) {
      const ts = times[index] ?? 0
      expect(gaps.some(isIn(ts)), `seed ${seed}, fill ${index}`).toBe(true)
      expect(covered.some(isIn(ts)), `seed ${seed}, fill ${index}`).toBe(false)
      if (times[index - 1] === ts || times[index + 1] === ts) lostInSweeps++
    }
    for (const gap of gaps) {
      // A millisecond that two responses share only at their edges is not proven.
      const isEdge = gap.to - gap.from === 1 && times.includes(gap.from)
      expect(isEdge || lost.some((index) => isIn(times[index] ?? 0)(gap))).toBe(true)
    }
    gapCount += gaps.length
  }
  expect(gapCount).toBeGreaterThan(20)
  expect(lostInSweeps).toBeGreaterThan(100)
})

test('a fill that could not be understood is a gap of its millisecond, whatever pages show it again', async () => {
  const { db } = database.database
  const target = { category: 'SPOT', symbol: 'UNREADUSDT' } as const
  const series = { stream: 'fills', ...target, type: '', interval: '' } as const
  const start = 1_760_000_000_000
  const bad = (raw: string) =>
    rejectedRow({ operation: 'fills', parameters: target }, 'side: expected one of buy, sell, got "x"', raw)
  const store = async (numbers: readonly number[], raw: string | null) => {
    const rows = numbers.map((number) => aFill({ ...target, ts: start + number * 1_000, execId: String(number) }))
    const at = start + Math.max(...numbers) * 1_000
    const rejected = raw === null ? [] : [bad(raw)]
    const batch = {
      stream: 'fills',
      target,
      requestTime: at,
      receivedAt: at,
      rows,
      rejected,
    } as const
    await db.transaction().execute((trx) => storeFills(trx, [batch]))
  }
  const gapsOf = async () =>
    (await listGaps(db))
      .filter(({ symbol }) => symbol === target.symbol)
      .map(({ range, state }) => [range.from, range.to, state])
  const unread = `{"execId":"3","price":"1","size":"1","side":"x","ts":"${start + 3_000}"}`
  const gap = [start + 3_000, start + 3_001, 'open']
  await store([1, 2, 4, 5], unread)
  await store([1, 2, 4, 5, 6], unread)
  await store([5, 6, 7], null)
  expect(await gapsOf()).toEqual([gap])
  expect(await coveredRanges(db, series)).toEqual([
    { from: start + 2_000, to: start + 3_000 },
    // The last seconds before a response are not settled yet.
    { from: start + 3_001, to: start + 5_000 },
  ])
  // Where its time is not known either, nothing is claimed until pages are whole again.
  await store([7, 8, 10, 11], '{"execId":"9","side":"x"}')
  expect((await coveredRanges(db, series)).at(-1)?.to).toBe(start + 5_000)
  await store([11, 12, 13, 14, 15], null)
  expect(await coveredRanges(db, series)).not.toContainEqual(expect.objectContaining({ to: start + 9_001 }))
  const last = (await gapsOf()).at(-1)
  expect(last?.[0]).toBe(start + 5_000)
  expect(Number(last?.[1])).toBeGreaterThan(start + 9_000)
})
