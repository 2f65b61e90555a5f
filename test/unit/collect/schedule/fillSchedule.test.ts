import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { TradeSign } from '../../../../src/market/rows.js'
import type { SeenFill } from '../../../../src/collect/schedule/fillEstimate.js'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'

const service = 1_760_000_000_000
const limits = { groupOf: () => '', minPollMs: 50, maxPollMs: 300_000 }
/** A response at `at` with a fill each `everyMs`. */
const evenly = (everyMs: number, at: number, count = 100): SeenFill[] =>
  Array.from({ length: count }, (_, index) => ({ ts: service + at - index * everyMs, size: '2' }))

/** A schedule with instruments that were answered at 0 with a fill each so many milliseconds. */
function scheduleOf(everyMs: Readonly<Record<string, number>>) {
  const schedule = new FillSchedule<string>(String, limits)
  schedule.retarget(Object.keys(everyMs), 0)
  for (const _ of Object.keys(everyMs)) schedule.choose(0)
  for (const [name, ms] of Object.entries(everyMs)) schedule.responded(name, evenly(ms, 0), service, 0)
  return schedule
}

/** Takes the ticker of one instrument. */
function takeTicker<Target>(schedule: FillSchedule<Target>, target: Target, sign: TradeSign): boolean {
  return schedule.takeTickers((one) => (one === target ? sign : null), sign.ts - service).isIdle
}

/** Takes all that are due, in order. */
function takeAll(schedule: FillSchedule<string>, nowMs: number): string[] {
  const taken: string[] = []
  for (let chosen = schedule.choose(nowMs); chosen !== null; chosen = schedule.choose(nowMs)) taken.push(chosen.target)
  return taken
}

test('the flow of some instruments is that of the moment in a burst, and the usual one before it', () => {
  const schedule = scheduleOf({ A: 100, B: 200, C: 10 })
  const matches = (name: string) => name !== 'C'
  const usual = schedule.flow(matches)
  expect(usual).toBeCloseTo(1 / 100 + 1 / 200, 2)
  for (const name of ['A', 'B', 'C']) takeTicker(schedule, name, { ts: service + 1, volume24h: '1000', lastPrice: '1' })
  takeTicker(schedule, 'C', { ts: service + 1_000, volume24h: '1400', lastPrice: '2' })
  expect(schedule.flow(matches)).toBeCloseTo(usual, 2)
  takeTicker(schedule, 'A', { ts: service + 1_000, volume24h: '1400', lastPrice: '2' })
  expect(schedule.flow(matches)).toBeGreaterThan(2 * usual)
  // And it is over when tickers say so.
  for (let at = 2_000; at <= 120_000; at += 1_000)
    for (const name of ['A', 'B']) takeTicker(schedule, name, { ts: service + at, volume24h: '1400', lastPrice: '2' })
  expect(schedule.flow(matches)).toBeLessThan(1.5 * usual)
})

describe('whose fills are asked for', () => {
  test('the instrument with the most fills that no response showed', () => {
    expect(takeAll(scheduleOf({ slow: 1_000, fast: 10, middling: 100 }), 20_000)).toEqual(['fast', 'middling', 'slow'])
  })

  test('what a ticker tells while a request waits changes whom it asks for', () => {
    const schedule = scheduleOf({ A: 100, B: 5_000 })
    for (const name of ['A', 'B']) takeTicker(schedule, name, { ts: service + 100, volume24h: '1000', lastPrice: '1' })
    const quiet = { ts: service + 6_000, volume24h: '1000', lastPrice: '1' }
    takeTicker(schedule, 'A', quiet)
    takeTicker(schedule, 'B', { ...quiet, volume24h: '1400', lastPrice: '1.1' })
    expect(schedule.choose(7_000)?.target).toBe('B')
  })

  test('a ticker that shows trades never postpones: also when more drops out of its day than was traded', () => {
    for (const volume24h of ['1000', '900', '0']) {
      const schedule = scheduleOf({ A: 1_000 })
      takeTicker(schedule, 'A', { ts: service + 1, volume24h: '1000', lastPrice: '1' })
      for (let at = 1_000; at <= 30_000; at += 1_000)
        takeTicker(schedule, 'A', { ts: service + at, volume24h, lastPrice: String(at) })
      expect(schedule.choose(40_000)?.target, volume24h).toBe('A')
    }
  })

  test('an instrument whose ticker has not changed since the last response is not asked', () => {
    const schedule = scheduleOf({ A: 100 })
    const sign = { volume24h: '500', lastPrice: '1' }
    takeTicker(schedule, 'A', { ...sign, ts: service + 1 })
    for (let at = 1_000; at < 299_000; at += 1_000) {
      expect(takeTicker(schedule, 'A', { ...sign, ts: service + at })).toBe(true)
      expect(schedule.choose(at), String(at)).toBeNull()
    }
    expect(schedule.choose(300_000)?.target).toBe('A')
  })

  test('a quiet instrument whose volume jumps is asked at once', () => {
    const schedule = scheduleOf({ A: 60_000 })
    takeTicker(schedule, 'A', { ts: service + 1, volume24h: '1000', lastPrice: '1' })
    expect(schedule.choose(3_000)).toBeNull()
    // Sixty fills of the usual size.
    takeTicker(schedule, 'A', { ts: service + 3_000, volume24h: '1120', lastPrice: '2' })
    expect(schedule.choose(3_100)?.target).toBe('A')
  })

  test('the deadline is when a response is expected to be full', () => {
    const schedule = scheduleOf({ A: 100 })
    const chosen = schedule.choose(2_000)
    expect(chosen?.deadlineMs).toBeGreaterThan(4_000)
    expect(chosen?.deadlineMs).toBeLessThan(12_000)
  })

  test('a failure is repeated soon, and less and less soon', () => {
    const schedule = scheduleOf({ A: 100 })
    const waits: number[] = []
    for (let now = 60_000, round = 0; round < 12; round++) {
      expect(schedule.choose(now)?.target).toBe('A')
      schedule.failed('A', now)
      const { dueMs } = schedule.upcoming(now)
      waits.push(dueMs - now)
      now = dueMs
    }
    expect(waits[0]).toBe(50)
    expect(waits.every((wait, index) => index === 0 || wait >= (waits[index - 1] ?? 0))).toBe(true)
    expect(waits.at(-1)).toBe(30_000)
  })

  test('instruments that are no longer wanted are forgotten', () => {
    const schedule = scheduleOf({ A: 100, B: 100 })
    schedule.retarget(['B'], 10)
    schedule.responded('A', [], service, 20)
    expect(takeAll(schedule, 60_000)).toEqual(['B'])
  })

  test('what an earlier run has recorded decides who is first after a restart', () => {
    const schedule = new FillSchedule<string>(String, limits)
    schedule.retarget(['idle', 'busy', 'unknown'], 0)
    schedule.assume('idle', 0.000_01)
    schedule.assume('busy', 0.05)
    expect(takeAll(schedule, 0)).toEqual(['busy', 'idle', 'unknown'])
  })
})

describe('what comes back', () => {
  /** Runs a schedule with one request each 50 ms; returns how often each instrument was asked. */
  function run(
    names: readonly string[],
    seconds: number,
    fillsOf: (name: string, nowMs: number) => SeenFill[],
    volumeOf: (name: string, nowMs: number) => string,
  ) {
    const schedule = new FillSchedule<string>(String, limits)
    schedule.retarget(names, 0)
    const asked = new Map(names.map((name) => [name, [] as number[]]))
    for (let now = 0; now < seconds * 1_000; now += 50) {
      if (now % 5_000 === 0)
        for (const name of names) {
          const at = Math.max(1, now - 1_000)
          takeTicker(schedule, name, { ts: service + at, volume24h: volumeOf(name, at), lastPrice: volumeOf(name, at) })
        }
      const chosen = schedule.choose(now)
      if (chosen === null) continue
      asked.get(chosen.target)?.push(now)
      schedule.responded(chosen.target, fillsOf(chosen.target, now), service + now, now)
    }
    return asked
  }

  test('a ticker that claims millions of which nothing comes is asked less and less', () => {
    const asked = run(
      ['token'],
      3_600,
      () => evenly(600_000, -100_000_000),
      (_, at) => String(1_000_000_000 + at * 1_000),
    )
    const times = asked.get('token') ?? []
    const within = (from: number, to: number) => times.filter((at) => at >= from && at < to).length
    expect(within(0, 600_000)).toBeLessThan(60)
    expect(within(1_800_000, 3_600_000)).toBeLessThan(10)
  })

  test('and takes nothing from those that trade', () => {
    const fills = (name: string, now: number) =>
      name === 'real' ? evenly(20, now - (now % 20)) : evenly(600_000, -100_000_000)
    const asked = run(
      ['real', ...Array.from({ length: 50 }, (_, index) => `token ${index}`)],
      600,
      fills,
      (name, at) => (name === 'real' ? String(1_000 + at / 10) : String(1_000_000_000 + at * 1_000)),
    )
    const times = (asked.get('real') ?? []).filter((at) => at > 60_000)
    const longest = Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? 0)))
    // A page is full after 2 s.
    expect(longest).toBeLessThan(1_500)
  })

  test('an instrument that has no fill at all is asked hardly more often than its ticker is silent', () => {
    const busy = Array.from({ length: 40 }, (_, index) => `real ${index}`)
    const asked = run(
      [...busy, ...Array.from({ length: 40 }, (_, index) => `token ${index}`)],
      1_800,
      // 40 that fill a page in 20 s each, so that twice the requests would be needed.
      (name, now) => (name.startsWith('real') ? evenly(200, now - (now % 200)) : []),
      (name, at) => (name.startsWith('real') ? String(1_000 + at / 100) : String(1_000_000_000 + at * 1_000)),
    )
    for (const [name, times] of asked) if (name.startsWith('token')) expect(times.length, name).toBeLessThan(8)
  })

  test('with its first fill it is asked like the others again', () => {
    const begins = 3_000_000
    const asked = run(
      ['token'],
      7_200,
      (_, now) => (now < begins ? evenly(600_000, -100_000_000) : evenly(100, now - (now % 100))),
      (_, at) => String(1_000_000_000 + at * 1_000),
    )
    const times = asked.get('token') ?? []
    const first = times.find((at) => at >= begins) ?? Infinity
    // The longest wait is an hour.
    expect(first).toBeLessThan(begins + 3_600_000)
    expect(times.filter((at) => at >= first && at < first + 60_000).length).toBeGreaterThan(10)
  })
})

describe('always', () => {
  const action = fc.record({
    waitMs: fc.integer({ min: 20, max: 200 }),
    /** How many of its fills are new, and over which time they are spread. */
    fills: fc.integer({ min: 1, max: 100 }),
    spanMs: fc.integer({ min: 1, max: 60_000 }),
    fails: fc.integer({ min: 0, max: 9 }).map((draw) => draw === 0),
    latencyMs: fc.integer({ min: 0, max: 400 }),
    volume: fc.integer({ min: 0, max: 1e9 }),
  })

  test('nobody is asked twice at once, and nobody who trades waits for longer than is said', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(action, { minLength: 1, maxLength: 30 }),
        (count, actions) => {
          const maxPollMs = 20_000
          const schedule = new FillSchedule<number>(String, { ...limits, maxPollMs })
          const names = Array.from({ length: count }, (_, index) => index)
          schedule.retarget(names, 0)
          const underWay = new Map<number, { atMs: number; fills: number; spanMs: number; fails: boolean }>()
          const respondedMs = new Map(names.map((name) => [name, 0]))
          // Each failure lets a turn pass in vain, and its repetition wait. One that fails alone waits for the fiftieth choice.
          let failures = 0
          let now = 0
          for (let turn = 0; turn < 1_500; turn++) {
            const step = actions[turn % actions.length]
            if (step === undefined) return
            now += step.waitMs
            for (const [name, { atMs, fills, spanMs, fails }] of underWay) {
              if (atMs > now) continue
              underWay.delete(name)
              if (fails && failures < 20) {
                failures++
                schedule.failed(name, now)
                continue
              }
              schedule.responded(name, evenly(spanMs / fills, now, fills), service + now, now)
              respondedMs.set(name, now)
            }
            takeTicker(schedule, turn % count, {
              ts: service + now - 1_000,
              volume24h: String(step.volume),
              lastPrice: String(step.volume),
            })
            const chosen = schedule.choose(now)
            if (chosen !== null) {
              if (underWay.has(chosen.target)) throw new Error(`${chosen.target} is asked twice at once`)
              underWay.set(chosen.target, { ...step, atMs: now + step.latencyMs })
            }
            const bound = maxPollMs + (4 * count + 4 * failures + 4) * 200 + 600 + failures * (30_000 + 50 * 200)
            for (const [name, at] of respondedMs)
              if (now - at > bound) throw new Error(`${name} has not been asked for ${now - at} ms`)
          }
        },
      ),
      { numRuns: 60 },
    )
  })

  test('every instrument is asked once before long, however busy the others are', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300 }), fc.integer({ min: 0, max: 5 }), (count, busy) => {
        const schedule = new FillSchedule<number>(String, limits)
        schedule.retarget(
          Array.from({ length: count }, (_, index) => index),
          0,
        )
        const answered = new Set<number>()
        for (let turn = 0; turn < count * 2; turn++) {
          const chosen = schedule.choose(turn * 55)
          if (chosen === null) continue
          answered.add(chosen.target)
          const page = chosen.target < busy ? evenly(1, turn * 55) : []
          schedule.responded(chosen.target, page, service + turn * 55, turn * 55)
        }
        expect(answered.size).toBe(count)
      }),
      { numRuns: 50 },
    )
  })
})

describe('a budget that does not suffice', () => {
  test('what is lost is known before it happens', () => {
    const everyMs = { A: 2, B: 2, C: 10_000 }
    const schedule = scheduleOf(everyMs)
    for (let at = 1_000; at <= 1_800_000; at += 1_000)
      for (const [name, ms] of Object.entries(everyMs))
        schedule.responded(name, evenly(ms, at - (at % ms)), service + at, at)
    const fillsPerSecond = schedule.fillsPerSecond()
    expect(fillsPerSecond).toBeGreaterThan(800)
    expect(fillsPerSecond).toBeLessThan(1_100)
  })
})
