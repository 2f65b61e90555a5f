import { describe, expect, test } from 'vitest'
import { averageRate, currentRate, smallSize } from '../../../../src/collect/fills/fillRate.js'
import { FillSchedule, fillShortage, type SeenFill } from '../../../../src/collect/fills/fillSchedule.js'

const service = 1_760_000_000_000
const limits = { minPollMs: 50, maxPollMs: 300_000 }
/** A full answer at `at` with a fill each `everyMs`. */
const evenly = (everyMs: number, at: number, count = 100): SeenFill[] =>
  Array.from({ length: count }, (_, index) => ({ ts: service + at - index * everyMs, size: '2' }))

/** A schedule with instruments that were answered at 0 with a fill each so many milliseconds. */
function scheduleOf(everyMs: Readonly<Record<string, number>>) {
  const schedule = new FillSchedule<string>(String, limits)
  schedule.retarget(Object.keys(everyMs), 0)
  schedule.take(0)
  for (const [name, ms] of Object.entries(everyMs)) schedule.answered(name, evenly(ms, 0), service, 0)
  return schedule
}

describe('when fills are asked for', () => {
  test('new instruments are due at once, but less urgent than those that are known to trade', () => {
    const schedule = scheduleOf({ A: 20 })
    schedule.retarget(['A', 'B'], 1_000)
    const due = schedule.take(1_000)
    expect(due.map(({ target }) => target).toSorted()).toEqual(['A', 'B'])
    const deadlines = new Map(due.map(({ target, deadlineMs }) => [target, deadlineMs]))
    expect(deadlines.get('A')).toBeLessThan(deadlines.get('B') ?? 0)
  })

  test('an instrument is due long before an answer is full, and its deadline is when it would be', () => {
    const schedule = scheduleOf({ A: 100 })
    expect(schedule.nextMs()).toBeGreaterThan(500)
    expect(schedule.nextMs()).toBeLessThan(5_000)
    // A hundred fills take 10 s, by the highest rate that the answer shows a little less.
    const [due] = schedule.take(schedule.nextMs())
    expect(due?.deadlineMs).toBeGreaterThan(9_000)
    expect(due?.deadlineMs).toBeLessThanOrEqual(10_000)
  })

  test('the busier has the earlier deadline', () => {
    const due = scheduleOf({ slow: 1_000, fast: 10 }).take(200_000)
    expect(due.toSorted((a, b) => a.deadlineMs - b.deadlineMs).map(({ target }) => target)).toEqual(['fast', 'slow'])
  })

  test('an instrument that is being asked is not due again', () => {
    const schedule = scheduleOf({ A: 100 })
    expect(schedule.take(60_000)).toHaveLength(1)
    expect(schedule.take(120_000)).toEqual([])
    expect(schedule.nextMs()).toBe(Infinity)
  })

  test('a failure is repeated soon, and less and less soon', () => {
    const schedule = scheduleOf({ A: 100 })
    const waits: number[] = []
    for (let now = 60_000, round = 0; round < 12; round++) {
      schedule.take(now)
      schedule.failed('A', now)
      waits.push(schedule.nextMs() - now)
      now = schedule.nextMs()
    }
    expect(waits[0]).toBe(50)
    expect(waits.every((wait, index) => index === 0 || wait >= (waits[index - 1] ?? 0))).toBe(true)
    expect(waits.at(-1)).toBe(30_000)
  })

  test('an instrument whose ticker has not changed since the last answer is not asked', () => {
    const schedule = scheduleOf({ A: 100 })
    const sign = { volume24h: '500', lastPrice: '1' }
    schedule.traded('A', { ...sign, ts: service - 1_000 })
    for (let at = 1_000; at < 900_000; at += 1_000) {
      expect(schedule.take(at), String(at)).toEqual([])
      expect(schedule.traded('A', { ...sign, ts: service + at })).toBe(true)
    }
    expect(schedule.take(3_700_000)).toHaveLength(1)
  })

  test('a ticker that is older than the answer says nothing about what came after it', () => {
    const schedule = scheduleOf({ A: 100 })
    const sign = { volume24h: '500', lastPrice: '1' }
    expect(schedule.traded('A', { ...sign, ts: service - 2_000 })).toBe(false)
    expect(schedule.traded('A', { ...sign, ts: service - 1_000 })).toBe(false)
    expect(schedule.take(10_000)).toHaveLength(1)
  })

  test('a quiet instrument whose volume jumps is asked at once', () => {
    const schedule = scheduleOf({ A: 60_000 })
    schedule.traded('A', { ts: service - 1_000, volume24h: '1000', lastPrice: '1' })
    expect(schedule.nextMs()).toBeGreaterThan(60_000)
    // Sixty fills of the usual size.
    schedule.traded('A', { ts: service + 3_000, volume24h: '1120', lastPrice: '2' })
    expect(schedule.nextMs()).toBeLessThanOrEqual(3_000)
  })

  test('what was lost is known before it happens', () => {
    const load = scheduleOf({ A: 2, B: 2, C: 10_000 }).load()
    expect(load.neededPerSecond).toBeCloseTo(10, 0)
    expect(load.wantedPerSecond).toBeGreaterThan(load.neededPerSecond)
  })

  test('instruments that are no longer wanted are forgotten', () => {
    const schedule = scheduleOf({ A: 100, B: 100 })
    schedule.retarget(['B'], 10)
    schedule.answered('A', [], service, 20)
    expect(schedule.targets()).toEqual(['B'])
  })
})

describe('a budget that does not suffice', () => {
  test.for([
    [15, null],
    [17, 'bursts may cost fills'],
    [25, 'the busiest instruments lose fills'],
  ] as const)('is told of before fills are lost: %d of 20', ([neededPerSecond, told]) => {
    const shortage = fillShortage({ neededPerSecond, wantedPerSecond: 0, late: 0 }, 20)
    if (told === null) expect(shortage).toBeNull()
    else expect(shortage).toContain(told)
  })
})

describe('rates', () => {
  test('go by the burst at the end of a slow answer, and fall in silence', () => {
    const burst = [...evenly(10, 0, 30), ...evenly(60_000, -300, 70)]
    expect(currentRate(burst, service)).toBeGreaterThan(0.05)
    expect(averageRate(burst, service)).toBeLessThan(0.001)
    expect(currentRate(burst, service + 600_000)).toBeLessThan(0.001)
  })
  test('of nothing are nothing', () => {
    expect([currentRate([], service), averageRate([], service), smallSize([])]).toEqual([0, 0, 0])
  })
})
