import { expect, test } from 'vitest'
import { CycleSchedule } from '../../../../src/collect/schedule/cycleSchedule.js'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'
import { serviceMs } from '../../../../src/market/values.js'

const targets = Array.from({ length: 30 }, (_, index) => ({ symbol: `S${index}` }))
const keyOf = ({ symbol }: { readonly symbol: string }) => symbol

/** Books every 10 s. Those of the first `stuck` targets stay the same for ten minutes; returns the requests after it. */
function booksAfter(stuck: number): number {
  const schedule = new CycleSchedule<{ symbol: string }>({
    keyOf,
    groupOf: () => 'SPOT',
    phaseOf: ({ symbol }) => Number(symbol.slice(1)) / 30,
    everyMs: 10_000,
    isSilenceProven: false,
  })
  schedule.retarget(targets, 30, 0)
  let requests = 0
  for (let ms = 0; ms < 780_000; ms += 1_000) {
    const isStuck = ms >= 120_000 && ms < 720_000
    for (const target of schedule.take(ms)) {
      const isSame = isStuck && targets.indexOf(target) < stuck
      schedule.responded(target, isSame ? 'same' : `${ms}`, null, { wall: ms, ms })
      if (ms >= 720_000 && targets.indexOf(target) < stuck) requests++
    }
  }
  return requests
}

test('books that stand still together keep their pace, and those that stand still alone lose it', () => {
  expect(booksAfter(30)).toBeGreaterThan(30 * 5)
  expect(booksAfter(5)).toBeLessThan(5 * 3)
})

test('instruments whose fills stand still together are requested within seconds after it', () => {
  const schedule = new FillSchedule<{ symbol: string }>(keyOf, {
    groupOf: () => 'SPOT',
    minPollMs: 50,
    maxPollMs: 600_000,
  })
  schedule.retarget(targets, 0)
  const [from, to] = [600_000, 2_400_000]
  const base = 1_760_000_000_000
  const after = new Set<string>()
  for (let ms = 0; ms < to + 30_000; ms += 100) {
    const chosen = schedule.choose(ms)
    if (chosen === null) continue
    const newest = ms >= from && ms < to ? from : ms
    // A fill each second.
    const page = Array.from({ length: 100 }, (_, index) => ({
      ts: serviceMs(base + newest - (newest % 1_000) - index * 1_000),
      size: '1',
    }))
    schedule.responded(chosen.target, page, serviceMs(base + ms), ms)
    if (ms >= to) after.add(chosen.target.symbol)
  }
  expect(after.size).toBe(targets.length)
})
