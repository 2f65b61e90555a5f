import { describe, expect, test } from 'vitest'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'

const service = 1_760_000_000_000
const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`)
/** Fills of an instrument that has one each second. */
const fillsAt = (nowMs: number) =>
  Array.from({ length: 100 }, (_, index) => ({ ts: service + nowMs - index * 1_000, size: '1' }))

/** A schedule that may request twenty times a second, or as often as given; `fails` says which requests fail. */
function running(all: readonly string[], groupOf: (name: string) => string = () => 'all', everyMs = 50) {
  const schedule = new FillSchedule<string>(String, { minPollMs: 50, maxPollMs: 600_000, groupOf })
  schedule.retarget(all, 0)
  let nowMs = 0
  return {
    schedule,
    /** Returns how often each instrument was requested until then. */
    until(endMs: number, fails: (name: string) => boolean) {
      const counts = new Map<string, number>()
      for (; nowMs < endMs; nowMs += everyMs) {
        const target = schedule.choose(nowMs)?.target
        if (target === undefined) continue
        counts.set(target, (counts.get(target) ?? 0) + 1)
        if (fails(target)) schedule.failed(target, nowMs)
        else schedule.responded(target, fillsAt(nowMs), service + nowMs, nowMs)
      }
      return {
        of: (prefix: string) =>
          [...counts].reduce((sum, [name, count]) => sum + (name.startsWith(prefix) ? count : 0), 0),
        counts,
      }
    },
  }
}

describe('instruments that only fail, among others that have responses', () => {
  test('take a fiftieth of the requests after their first ones, and next to nothing in the end', () => {
    const all = [...names('dead', 30), ...names('live', 40)]
    const { until, schedule } = running(all, () => 'all', 500)
    const fails = (name: string) => name.startsWith('dead')
    const first = until(120_000, fails)
    // Each is tried before any other has a response, and once more after that.
    expect(first.of('dead')).toBeLessThan(30 * 2 + 240 / 50)
    const second = until(1_800_000, fails)
    expect(second.of('dead') / (second.of('dead') + second.of('live'))).toBeLessThan(0.025)
    until(7_200_000, fails)
    const last = until(9_000_000, fails)
    expect(last.of('dead')).toBeLessThan(60)
    expect(schedule.counts(9_000_000).lateTargets).toBe(0)
  })

  test('are requested as often as they are due where nothing else is', () => {
    const { until } = running(['dead', 'live'])
    const fails = (name: string) => name === 'dead'
    expect(until(60_000, fails).of('dead')).toBeGreaterThan(1)
    const hours = until(7_200_000, fails)
    expect(hours.of('dead')).toBeGreaterThanOrEqual(2)
    expect(hours.of('dead')).toBeLessThan(30)
  })

  test('are requested like all others after their first response', () => {
    const { until } = running(['dead', ...names('live', 3)])
    until(600_000, (name) => name === 'dead')
    until(7_200_000, () => false)
    const later = until(8_200_000, () => false)
    const each = ['dead', ...names('live', 3)].map((name) => later.counts.get(name) ?? 0)
    expect(Math.min(...each)).toBeGreaterThan(0.5 * Math.max(...each))
  })

  test('one that had responses is believed until it has missed three', () => {
    const { until } = running(names('live', 3))
    until(60_000, () => false)
    const failing = until(120_000, (name) => name === 'live0')
    expect(failing.counts.get('live0')).toBeGreaterThanOrEqual(3)
    expect(failing.counts.get('live0')).toBeLessThan(30)
  })
})

test('while all fail, none counts as failing alone, and all are requested soon after', () => {
  const { until } = running(names('live', 100))
  until(120_000, () => true)
  const after = until(160_000, () => false)
  expect(after.counts.size).toBe(100)
})

test('the failures of one category say nothing about another', () => {
  const { until } = running([...names('a', 20), ...names('b', 20)], (name) => name.slice(0, 1))
  until(120_000, (name) => name.startsWith('a'))
  const after = until(160_000, () => false)
  expect([...after.counts.keys()].filter((name) => name.startsWith('a'))).toHaveLength(20)
})
