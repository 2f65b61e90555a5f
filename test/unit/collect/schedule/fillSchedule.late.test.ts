import { expect, test } from 'vitest'
import type { SeenFill } from '../../../../src/collect/schedule/fillEstimate.js'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'

const service = 1_760_000_000_000
/** A full response at 0 with a fill each `everyMs`. */
const evenly = (everyMs: number): SeenFill[] =>
  Array.from({ length: 100 }, (_, index) => ({ ts: service - index * everyMs, size: '2' }))

/** A schedule of an instrument that got this response at 0, `times` times. */
function scheduleAfter(response: readonly SeenFill[], times = 1): FillSchedule<string> {
  const schedule = new FillSchedule<string>(String, { groupOf: () => '', minPollMs: 50, maxPollMs: 600_000 })
  schedule.retarget(['A'], 0)
  for (let count = 0; count < times; count++) schedule.responded('A', response, service, 0)
  return schedule
}

/** Seconds after which the instrument is late. */
function lateAfterS(schedule: FillSchedule<string>): number {
  for (let seconds = 0; ; seconds++) if (schedule.counts(seconds * 1_000).lateTargets === 1) return seconds
}

test('an instrument is late once more has happened than a response shows, or once the longest wait is over', () => {
  const fullAfterS = lateAfterS(scheduleAfter(evenly(1_000)))
  expect(fullAfterS).toBeGreaterThan(80)
  expect(fullAfterS).toBeLessThanOrEqual(100)
  expect(lateAfterS(scheduleAfter(evenly(100_000)))).toBe(631)
})

test('an instrument that a page does not last for half a minute has that long', () => {
  expect(lateAfterS(scheduleAfter(evenly(10)))).toBe(31)
})

test('an instrument whose responses bring nothing new may wait as long as the schedule lets it', () => {
  expect(lateAfterS(scheduleAfter(evenly(100_000_000), 2))).toBe(1_231)
})

test('an instrument without a response is late after the longest wait; one that does not trade never is', () => {
  expect(lateAfterS(scheduleAfter([], 0))).toBe(631)
  expect(scheduleAfter([]).counts(900_000)).toEqual({ lateTargets: 0, quietTargets: 1 })
  expect(scheduleAfter([]).counts(9_000_000)).toEqual({ lateTargets: 0, quietTargets: 1 })
})

test('a burst makes no instrument late while the tickers since then tell of few fills', () => {
  const schedule = scheduleAfter(evenly(300))
  const takeTickers = (volumeOf: (seconds: number) => number, from: number, until: number) => {
    for (let seconds = from; seconds <= until; seconds++) {
      const ts = service + seconds * 1_000
      const sign = { ts, volume24h: String(volumeOf(seconds)), lastPrice: '1' }
      schedule.takeTickers(() => sign, seconds * 1_000)
    }
  }
  takeTickers(() => 1_000, 1, 300)
  expect(schedule.counts(300_000).lateTargets).toBe(0)
  takeTickers((seconds) => 1_000 + 10 * (seconds - 300), 301, 330)
  expect(schedule.counts(330_000).lateTargets).toBe(1)
})
