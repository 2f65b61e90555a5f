import { expect, test } from 'vitest'
import type { SeenFill } from '../../../../src/collect/schedule/fillEstimate.js'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'

const service = 1_760_000_000_000
/** A response at `at` with a hundred fills, one each `everyMs`. */
const evenly = (everyMs: number, at: number): SeenFill[] =>
  Array.from({ length: 100 }, (_, index) => ({ ts: service + at - index * everyMs, size: '2' }))

/** A schedule with instruments that responded at 0 with a fill each so many milliseconds. */
function scheduleOf(everyMs: Readonly<Record<string, number>>) {
  const schedule = new FillSchedule<string>(String, { groupOf: () => '', minPollMs: 50, maxPollMs: 300_000 })
  schedule.retarget(Object.keys(everyMs), 0)
  for (const [name, ms] of Object.entries(everyMs)) schedule.responded(name, evenly(ms, 0), service, 0)
  return schedule
}

/** Takes all that are due, in order. */
function takeAll(schedule: FillSchedule<string>, nowMs: number): string[] {
  const taken: string[] = []
  for (let chosen = schedule.choose(nowMs); chosen !== null; chosen = schedule.choose(nowMs)) taken.push(chosen.target)
  return taken
}

test('an instrument whose response could not be kept is asked again at once, however quiet it is', () => {
  const schedule = scheduleOf({ quiet: 200_000, busy: 10 })
  expect(takeAll(schedule, 20_000)).toEqual(['busy'])
  schedule.responded('busy', evenly(10, 20_000), service + 20_000, 20_000)
  // The quiet one is asked when its time has come, and what it shows is lost.
  expect(takeAll(schedule, 301_000)).toContain('quiet')
  schedule.lost('quiet', 301_000)
  expect(schedule.upcoming(301_000).dueMs).toBeLessThan(302_000)
  expect(takeAll(schedule, 302_000)).toContain('quiet')
  // As long as that goes on, less and less often.
  const asked: number[] = []
  for (let at = 302_000; at < 422_000; at += 1_000) {
    schedule.lost('quiet', at)
    while (!takeAll(schedule, at).includes('quiet')) at += 1_000
    asked.push(at)
  }
  expect(asked.length).toBeGreaterThan(3)
  expect(asked.length).toBeLessThan(30)
  schedule.responded('quiet', evenly(200_000, 430_000), service + 430_000, 430_000)
  expect(takeAll(schedule, 440_000)).not.toContain('quiet')
})

test('an instrument whose responses are lost, one after the other, becomes late', () => {
  const schedule = scheduleOf({ quiet: 200_000, busy: 1_000 })
  const lateAt = (minutes: number) => {
    for (const target of ['quiet', 'busy']) schedule.lost(target, minutes * 60_000)
    return schedule.counts(minutes * 60_000).lateTargets
  }
  // A page of the busy one is full after 100 s, and no instrument may wait for more than five minutes.
  expect([1, 2, 3, 4, 5, 6, 7].map(lateAt)).toEqual([0, 1, 1, 1, 1, 2, 2])
  schedule.responded('busy', evenly(1_000, 430_000), service + 430_000, 430_000)
  expect(schedule.counts(430_000).lateTargets).toBe(1)
})

test('an instrument whose newest response had to be given up is asked again at once', () => {
  const schedule = scheduleOf({ quiet: 200_000 })
  expect(takeAll(schedule, 301_000)).toEqual(['quiet'])
  schedule.responded('quiet', evenly(200_000, 301_000), service + 301_000, 301_000)
  // An older one: the newest shows the same fills.
  schedule.dropped('quiet', service + 60_000, 310_000)
  expect(takeAll(schedule, 320_000)).toEqual([])
  schedule.dropped('quiet', service + 301_000, 330_000)
  expect(takeAll(schedule, 331_000)).toEqual(['quiet'])
  // The one under way will show them.
  schedule.dropped('quiet', service + 301_000, 331_500)
  expect(takeAll(schedule, 340_000)).toEqual([])
})
