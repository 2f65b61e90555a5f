import fc from 'fast-check'
import { createTask } from 'node-cron'
import { describe, expect, test } from 'vitest'
import { longestPauseMs, nextRunOf, onSchedule, runsPerDay } from '../../../../src/collect/schedule/cron.js'
import { createFakeClock } from '../../../support/fakeClock.js'

const expressions = [
  '*/5 * * * * *',
  '0 */10 * * * *',
  '30 23 * * * *',
  '7,22 1-3 0,12 * * *',
  '0 0 0 L 2 *',
  '0 0 8 * * 5',
  '0 0 0 1-30,15 * *',
  '0 0 0 * 1-11,1 *',
  '0 0 0 * * 1-6,1#2',
]
const moment = fc.integer({ min: Date.UTC(2020, 0, 1), max: Date.UTC(2030, 0, 1) })

test.each(expressions)('%s: the next run matches, and nothing before it does', (expression) => {
  const next = nextRunOf(expression)
  const task = createTask(expression, () => undefined, { timezone: 'UTC' })
  fc.assert(
    fc.property(moment, fc.double({ min: 0, max: 0.999, noNaN: true }), (after, share) => {
      const run = next(after) ?? NaN
      expect(run).toBeGreaterThan(after)
      expect(task.match(new Date(run))).toBe(true)
      // Some whole second in between.
      const between = Math.floor((after + share * (run - after)) / 1000) * 1000
      if (between > after && between < run) expect(task.match(new Date(between))).toBe(false)
    }),
    { numRuns: 50 },
  )
})

test('a first of a month that is its second Monday never comes', () => {
  expect(nextRunOf('0 0 0 1 * 1#2')(Date.UTC(2026, 0, 1))).toBeNull()
})

test('runs at each time until it is ended, also when timers are late', async () => {
  for (const latenessMs of [0, 3]) {
    const clock = createFakeClock(() => latenessMs)
    const runs: number[] = []
    const end = onSchedule(clock, '*/5 * * * * *', () => runs.push(Math.floor(clock.now() / 1000) % 60))
    await clock.advance(20_100)
    end()
    await clock.advance(20_000)
    expect(runs).toHaveLength(4)
    expect(runs.every((second) => second % 5 === 0)).toBe(true)
    expect(clock.pendingSleeps).toBe(0)
  }
})

describe('the longest pause of a schedule', () => {
  test.each([
    ['*/5 * * * * *', 5_000],
    ['0 */10 * * * *', 600_000],
    ['0,10 * * * * *', 50_000],
    ['30 15 */6 * * *', 6 * 3_600_000],
    ['0 0 12 * * *', 86_400_000],
    ['0 0 12 * * 1', 31 * 86_400_000],
    ['0 0 12 1-30,15 * *', 31 * 86_400_000],
  ])('%s', (expression, pauseMs) => {
    expect(longestPauseMs(expression)).toBe(pauseMs)
  })
})

test.each([
  ['*/5 * * * * *', 17_280],
  ['0 */10 * * * *', 144],
  ['0 0 0 * * *', 1],
  ['15,45 0 9-17 * * 1-5', 18],
])('%s runs %i times a day', (schedule, runs) => {
  expect(runsPerDay(schedule)).toBe(runs)
})
