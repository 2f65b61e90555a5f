import { expect, test } from 'vitest'
import { WholeLists } from '../../../../src/collect/universe/wholeLists.js'
import { isWholeList } from '../../../../src/ledger/batch.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { rejectedRow } from '../../../../src/market/rows.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { batchOf } from '../../../support/batches.js'

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, place) => from + place)
const listOf = (ids: readonly number[], stream: 'instruments' | 'rpi_symbols' | 'tickers' = 'instruments') =>
  batchOf(
    stream,
    { category: 'SPOT' },
    ids.map((id) => ({ category: 'SPOT', symbol: `S${id}` })),
    1,
  )

function watch() {
  const incidents = new Incidents(createLogger('silent'), systemClock)
  const lists = new WholeLists(incidents)
  let now = 0
  /** Whether what is not on the list is gone. Lists come a minute apart, if nothing else is said. */
  const counts = (ids: readonly number[], afterMs = 60_000) => {
    now += afterMs
    return isWholeList(lists.judge({ ...listOf(ids), receivedAt: now }))
  }
  return { incidents, lists, counts }
}

test('a list that lacks more than a tenth of the one before counts only when the next one lacks that, too', () => {
  const { counts, incidents } = watch()
  const all = numbers(0, 600)
  expect(counts(all)).toBe(false)
  expect(counts(all)).toBe(true)
  expect(counts(numbers(0, 540))).toBe(true)
  expect(counts(numbers(0, 100))).toBe(false)
  expect(incidents.recent()).toMatchObject([{ what: 'instruments list', count: 1 }])
  // The service is itself again.
  expect(counts(all)).toBe(true)
  expect(counts(numbers(0, 100))).toBe(false)
  // Cut off at another place.
  expect(counts(numbers(300, 600))).toBe(false)
  expect(counts(numbers(300, 598))).toBe(true)
  expect(counts(numbers(300, 598))).toBe(true)
})

test('a list that is cut off for seconds removes nothing, however often it comes', () => {
  const { counts } = watch()
  const all = numbers(0, 150)
  counts(all)
  expect([0, 10, 10, 20].map((seconds) => counts([0], seconds * 1_000))).toEqual([false, false, false, false])
  expect(counts(all, 5_000)).toBe(true)
  expect(counts([0])).toBe(false)
  expect(counts([0], 20_000)).toBe(false)
  expect(counts([0], 30_000)).toBe(true)
})

test('the first list of a run removes nothing, each category and stream is judged by itself, and one may go of a short list', () => {
  const { counts, lists } = watch()
  expect(counts([1, 2, 3])).toBe(false)
  expect(isWholeList(lists.judge(listOf([1], 'rpi_symbols')))).toBe(false)
  expect(isWholeList(lists.judge(listOf([1], 'tickers')))).toBe(true)
  expect(counts([1, 2])).toBe(true)
  expect(counts([7, 8])).toBe(false)
  expect(counts([])).toBe(false)
  expect(counts([7, 8])).toBe(true)
})

test('a list with many new instruments adds them only when the next one has them, too', () => {
  const { incidents, lists } = watch()
  const kept = (ids: readonly number[]) => {
    // One row that cannot be understood changes nothing.
    const { rows, unkept } = lists.judge({
      ...listOf(ids),
      rejected: [rejectedRow({ operation: 'instruments', parameters: {} }, 'x', '{}')],
    })
    return [rows.length, unkept ?? 0]
  }
  expect(kept(numbers(0, 3_000))).toEqual([3_000, 0])
  // Lists that share nothing with each other add nothing, however many come.
  for (let from = 3_000; from < 30_000; from += 3_000) expect(kept(numbers(from, from + 3_000))).toEqual([0, 3_000])
  expect(incidents.recent()[0]?.message).toContain('3000 new symbols are left out')
  expect(kept(numbers(0, 3_300))).toEqual([3_300, 0])
  // So do lists that add to what is known.
  expect(kept(numbers(0, 4_000))).toEqual([3_300, 700])
  expect(kept(numbers(0, 4_000))).toEqual([4_000, 0])
  expect(kept([...numbers(0, 4_000), ...numbers(9_000, 9_399)])).toEqual([4_399, 0])
})

test('a short list may grow by a hundred at once', () => {
  const { counts, lists } = watch()
  counts([1, 2])
  expect(counts(numbers(1, 103))).toBe(true)
  expect(lists.judge(listOf(numbers(1, 204))).rows).toHaveLength(102)
})

test('the first list of a run is compared with the recorded one, and removes nothing', () => {
  const { counts, incidents, lists } = watch()
  const recorded = (ids: readonly number[]) => lists.recorded(listOf(ids))
  const isPressing = () => lists.isPressing('instruments', { category: 'SPOT' })
  expect(recorded([])).toBe(false)
  expect(recorded(numbers(0, 150))).toBe(true)
  // It is cut off.
  expect(counts([0])).toBe(false)
  expect(isPressing()).toBe(true)
  expect(incidents.recent()).toMatchObject([{ what: 'instruments list', count: 1 }])
  expect(incidents.recent()[0]?.message).toContain('1 of SPOT after 150')
  const honest = lists.judge(listOf(numbers(1, 151)))
  expect(honest.rows).toHaveLength(150)
  expect(isPressing()).toBe(false)
  // A list of this run is the better measure.
  expect(recorded(numbers(0, 10))).toBe(false)
  expect(counts(numbers(2, 151))).toBe(true)
})

test('a first list that agrees with the recorded one removes nothing, and the next one does', () => {
  const { counts, lists } = watch()
  lists.recorded(listOf(numbers(0, 150)))
  expect(counts(numbers(1, 150))).toBe(false)
  expect(lists.isPressing('instruments', { category: 'SPOT' })).toBe(false)
  expect(counts(numbers(1, 150))).toBe(true)
})

test('a first list unlike the recorded one counts when the next one agrees', () => {
  const { counts, lists } = watch()
  lists.recorded(listOf(numbers(0, 150)))
  expect(lists.judge(listOf(numbers(500, 800))).rows).toEqual([])
  expect(lists.isPressing('instruments', { category: 'SPOT' })).toBe(true)
  expect(counts(numbers(500, 800))).toBe(true)
  expect(lists.isPressing('instruments', { category: 'SPOT' })).toBe(false)
})

test('lists that lack much add nothing, however many come and however often a run begins', () => {
  const stored = new Set(numbers(0, 8_000))
  let fresh = 8_000
  for (let run = 0; run < 3; run++) {
    const { lists, incidents } = watch()
    lists.recorded(listOf([...stored]))
    for (let list = 0; list < 5; list++) {
      // Another fifth is missing each time, and there are new ones, fewer than a tenth.
      const ids = [...numbers(0, 8_000).filter((id) => id % 5 !== list), ...numbers(fresh, (fresh += 780))]
      const { rows, unkept } = lists.judge(listOf(ids))
      for (const { symbol } of rows as { readonly symbol: string }[]) stored.add(Number(symbol.slice(1)))
      expect(unkept).toBe(780)
    }
    expect(incidents.recent()[0]?.message).toContain('780 new symbols are left out')
  }
  expect(stored.size).toBe(8_000)
})

test('a list that says a tenth are offline takes them when a later one agrees, and the next one is pressing until they are back', () => {
  const { incidents, lists } = watch()
  const isPressing = () => lists.isPressing('instruments', { category: 'SPOT' })
  const said = (offline: number, receivedAt: number) => {
    const rows = numbers(0, 150).map((id) => ({
      category: 'SPOT',
      symbol: `S${id}`,
      status: id < offline ? 'offline' : 'online',
    }))
    return lists.judge({ ...listOf([]), rows, receivedAt })
  }
  const open = () => incidents.recent().filter(({ until }) => until === null)
  said(1, 0)
  // Some are always offline, and a few more are believed at once.
  expect([isWholeList(said(10, 10_000)), isPressing()]).toEqual([true, false])
  expect([said(100, 20_000).rows.length, isPressing()]).toEqual([60, true])
  expect(open()[0]?.message).toContain('50 of SPOT after 140')
  expect(said(100, 64_000).rows).toHaveLength(60)
  expect(said(100, 66_000).rows).toHaveLength(150)
  expect(isPressing()).toBe(true)
  expect(open()[0]?.message).toBe('many of the 140 of SPOT are offline, and are not recorded')
  expect([isWholeList(said(60, 130_000)), isPressing()]).toEqual([true, true])
  expect([isWholeList(said(10, 190_000)), isPressing()]).toEqual([true, false])
})

test('what is offline for a day is not awaited any more', () => {
  const { lists } = watch()
  const all = (status: string, receivedAt: number) => {
    const rows = numbers(0, 20).map((id) => ({ category: 'SPOT', symbol: `S${id}`, status }))
    lists.judge({ ...listOf([]), rows, receivedAt })
    return lists.isPressing('instruments', { category: 'SPOT' })
  }
  expect(all('online', 0)).toBe(false)
  expect([all('offline', 10_000), all('offline', 60_000), all('offline', 80_000_000)]).toEqual([true, true, true])
  expect([all('offline', 86_460_000), all('offline', 87_000_000)]).toEqual([false, false])
})

test('a run that begins while all are offline waits for their return', () => {
  const { lists } = watch()
  const rows = (status: string) => [
    { category: 'SPOT', symbol: 'S1', status },
    { category: 'SPOT', symbol: 'S2', status },
  ]
  const isPressing = () => lists.isPressing('instruments', { category: 'SPOT' })
  lists.recorded({ ...listOf([]), rows: rows('offline') })
  lists.judge({ ...listOf([]), rows: rows('offline') })
  expect(isPressing()).toBe(true)
  // What is offline is not gone.
  expect(isWholeList(lists.judge(listOf([9])))).toBe(false)
  expect(lists.judge({ ...listOf([]), rows: rows('online') }).rows).toHaveLength(2)
  expect(isPressing()).toBe(false)
})
