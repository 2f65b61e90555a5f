import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CycleSchedule } from '../../../../src/collect/schedule/cycleSchedule.js'

const everyMs = 10_000
const hourMs = 3_600_000
const options = { keyOf: String, groupOf: () => 'all', everyMs, isSilenceProven: false }

/** A market whose books are asked for as fast as the limits allow, on a clock of its own. */
function market(names: readonly string[], slots: number, isSilenceProven = false) {
  const schedule = new CycleSchedule<string>({
    ...options,
    phaseOf: (name) => names.indexOf(name) / names.length,
    isSilenceProven,
  })
  const asked = new Map<string, number[]>()
  let nowMs = 0
  schedule.retarget(names, slots, nowMs)
  /** @param content what the service answers: null is an empty book */
  const run = (
    untilMs: number,
    content: (name: string, nowMs: number) => string | null,
    sign: (name: string) => string = () => '',
  ) => {
    for (; nowMs < untilMs; nowMs += 1000) {
      const now = { ms: nowMs, wall: nowMs }
      for (const name of names) schedule.claim(name, sign(name), now)
      for (const name of schedule.take(nowMs)) {
        asked.set(name, [...(asked.get(name) ?? []), nowMs])
        schedule.responded(name, content(name, nowMs), sign(name), now)
      }
    }
  }
  const countAsked = (name: string, fromMs = 0) => (asked.get(name) ?? []).filter((at) => at >= fromMs).length
  return { schedule, asked: countAsked, run }
}

/** A fixed sequence of numbers in [0, 1) that look random. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const changing = (_name: string, nowMs: number) => String(nowMs)
const names = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`)

test('where silence is proven, a stream is idle as long as its targets respond without news and in time', () => {
  const { schedule, run } = market(['a', 'b'], 2, true)
  run(hourMs, changing)
  expect(schedule.counts(hourMs).isIdle).toBe(false)
  run(2 * hourMs, () => 'the last news')
  expect(schedule.counts(2 * hourMs)).toMatchObject({ isIdle: true, late: 0 })
  // Nobody asks any more.
  expect(schedule.counts(5 * hourMs).isIdle).toBe(false)
})

test('quiet targets are requested although there are no others, by a caller that takes only what is due', () => {
  const { schedule } = market(['a', 'b', 'c'], 3)
  const asked: number[] = []
  for (let ms = 0; ms < 4 * hourMs; ms += 1000) {
    if (schedule.nextMs(ms) > ms) continue
    for (const name of schedule.take(ms)) {
      asked.push(ms)
      schedule.responded(name, null, '', { ms, wall: ms })
    }
  }
  expect(schedule.counts(4 * hourMs)).toMatchObject({ covered: 3, quiet: 3 })
  for (let hour = 1; hour < 4; hour++)
    expect(asked.filter((ms) => ms >= hour * hourMs && ms < (hour + 1) * hourMs).length).toBeGreaterThanOrEqual(2)
})

test('where silence is proven, quiet targets that wait for their turn leave the stream idle', () => {
  const { schedule, run, asked } = market(['a', 'b', 'c'], 3, true)
  let news = 0
  for (let ms = 60_000; ms <= 10 * 60_000; ms += 1000) {
    // Their tickers claim news all the time, so all of them are soon due.
    run(
      ms,
      () => null,
      () => String(news++),
    )
    expect(schedule.counts(ms)).toMatchObject({ quiet: 3, isIdle: true })
  }
  for (const name of ['a', 'b', 'c']) expect(asked(name)).toBeGreaterThan(2)
})

test('each target is asked once a cycle, at a place of its own', () => {
  const { run, asked, schedule } = market(names('A', 20), 20)
  run(hourMs, changing)
  for (const name of names('A', 20)) expect(Math.abs(asked(name) - 360)).toBeLessThanOrEqual(1)
  expect(schedule.counts(hourMs)).toEqual({ covered: 20, quiet: 0, leftOut: 0, late: 0, isIdle: false })
})

test('where no book was ever seen there is nothing to be had; where books have gone, there may be', () => {
  const never = market(['A', 'B'], 2)
  never.run(hourMs, () => null)
  expect(never.schedule.counts(hourMs)).toMatchObject({ quiet: 2, isIdle: true })
  const gone = market(['A', 'B'], 2)
  gone.run(hourMs, (name, nowMs) => (name === 'A' && nowMs < 60_000 ? String(nowMs) : null))
  expect(gone.schedule.counts(hourMs)).toMatchObject({ quiet: 2, isIdle: false })
  expect(market([], 2).schedule.counts(0).isIdle).toBe(false)
})

test('the places of those without a book go to the next that have one, at once', () => {
  // The first of the ranking are of a kind that claims the most and has nothing.
  const odd = names('ODD', 60)
  const { run, asked, schedule } = market([...odd, ...names('A', 60)], 20)
  const content = (name: string, nowMs: number) => (name.startsWith('ODD') ? null : String(nowMs))
  run(60_000, content)
  expect(schedule.counts(60_000)).toMatchObject({ covered: 80, quiet: 60, leftOut: 40 })
  run(hourMs, content, (name) => `${name} ${Math.random()}`)
  for (const name of names('A', 20)) expect(asked(name)).toBeGreaterThan(345)
  for (const name of names('A', 60).slice(20)) expect(asked(name)).toBe(0)
  const wasted = odd.reduce((sum, name) => sum + asked(name), 0)
  const useful = names('A', 20).reduce((sum, name) => sum + asked(name), 0)
  expect(wasted / (wasted + useful)).toBeLessThan(0.06)
})

test('one that comes to life is at full rhythm from its next look on, and each is looked at at least hourly', () => {
  const { run, asked } = market(['A', 'B', 'C'], 3)
  const wakesMs = 5 * hourMs
  run(wakesMs, (name, nowMs) => (name === 'C' ? null : String(nowMs)))
  expect(asked('C')).toBeGreaterThanOrEqual(5)
  expect(asked('C')).toBeLessThan(16)
  run(wakesMs + hourMs + 60_000, changing)
  const before = asked('C')
  run(wakesMs + hourMs + 120_000, changing)
  expect(asked('C') - before).toBe(6)
})

describe('tickers', () => {
  const quietThenAlive = (name: string, nowMs: number) => (name === 'B' && nowMs < hourMs ? 'same' : String(nowMs))
  test('a claim that was never wrong wakes at once', () => {
    const { run, asked } = market(['A', 'B'], 2)
    run(hourMs, quietThenAlive, () => 'same')
    expect(asked('B')).toBeLessThan(12)
    run(hourMs + 60_000, quietThenAlive, (name) => (name === 'B' ? 'new' : 'same'))
    expect(asked('B', hourMs)).toBeGreaterThanOrEqual(4)
  })

  test('claims that are never borne out cost next to nothing', () => {
    const { run, asked } = market(['A', 'B'], 2)
    let count = 0
    run(
      3 * hourMs,
      (name, nowMs) => (name === 'B' ? 'same' : String(nowMs)),
      () => String(count++),
    )
    expect(asked('B')).toBeLessThan(20)
  })
})

describe('a target that fails', () => {
  /** When the failing one was asked, among others that are answered with a probability of `share`, by a fixed sequence. */
  function asksOf(failing: string, everyMs: number, untilMs: number, share = 1) {
    const all = [failing, ...names('A', 19)]
    const phaseOf = (name: string) => all.indexOf(name) / all.length
    const schedule = new CycleSchedule<string>({ ...options, phaseOf, everyMs })
    schedule.retarget(all, all.length, 0)
    const random = numbers(7)
    const asks: number[] = []
    for (let nowMs = 0; nowMs < untilMs; nowMs += 1000) {
      const now = { ms: nowMs, wall: nowMs }
      for (const name of schedule.take(nowMs)) {
        if (name === failing) asks.push(nowMs)
        if (name === failing || random() >= share) schedule.failed(name, now)
        else schedule.responded(name, String(nowMs), null, now)
      }
    }
    return asks
  }
  const gapsOf = (asks: readonly number[]) => asks.slice(1).map((at, i) => at - (asks[i] ?? 0))

  test('alone, for whatever reason, is asked again less and less often, and at least every 32 cycles', () => {
    const asks = asksOf('B', 10_000, 4 * hourMs)
    const gaps = gapsOf(asks)
    expect(asks.length).toBeLessThan(60)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(330_000)
    expect(gaps.at(-1)).toBeGreaterThanOrEqual(310_000)
  })

  test('alone is found out beside others that fail now and then, and beside many that mostly fail', () => {
    for (const share of [0.8, 0.3]) expect(asksOf('B', 10_000, 8 * hourMs, share).length).toBeLessThan(180)
  })

  test('with all of its group is not alone: what one part of the service does not answer is asked again within a minute', () => {
    const all = [...names('A', 10), ...names('B', 10)]
    const schedule = new CycleSchedule<string>({
      ...options,
      groupOf: (name) => name.charAt(0),
      phaseOf: (name) => all.indexOf(name) / all.length,
    })
    schedule.retarget(all, all.length, 0)
    const last = new Map<string, number>()
    let longestMs = 0
    for (let nowMs = 0; nowMs < 2 * hourMs; nowMs += 1000) {
      for (const name of schedule.take(nowMs)) {
        longestMs = Math.max(longestMs, nowMs - (last.get(name) ?? nowMs))
        last.set(name, nowMs)
        if (name.startsWith('B')) schedule.failed(name, { ms: nowMs, wall: nowMs })
        else schedule.responded(name, String(nowMs), null, { ms: nowMs, wall: nowMs })
      }
    }
    expect(longestMs).toBeLessThanOrEqual(Math.max(60_000, everyMs))
  })

  test('alone in a cycle of hours is asked again soon, and never later than a cycle', () => {
    const gaps = gapsOf(asksOf('B', 2 * hourMs, 48 * hourMs))
    expect(gaps.slice(0, 2).every((gap) => gap <= 60_000)).toBe(true)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(2 * hourMs)
  })

  test('is back at its rhythm with its first response', () => {
    const schedule = new CycleSchedule<string>({ ...options, phaseOf: () => 0 })
    schedule.retarget(['A', 'B'], 2, 0)
    const asks: number[] = []
    for (let nowMs = 0; nowMs < hourMs; nowMs += 1000) {
      const now = { ms: nowMs, wall: nowMs }
      for (const name of schedule.take(nowMs)) {
        if (name === 'B') asks.push(nowMs)
        if (name === 'B' && nowMs < hourMs / 2) schedule.failed(name, now)
        else schedule.responded(name, String(nowMs), null, now)
      }
    }
    const from = asks.findIndex((at) => at >= hourMs / 2)
    expect(gapsOf(asks.slice(from)).every((gap) => gap === everyMs)).toBe(true)
    expect(asks.length - from).toBeGreaterThan(100)
  })

  test('has nobody to be compared with when it is the only one, and is asked each cycle', () => {
    const { schedule } = market(['A'], 1)
    let tries = 0
    for (let nowMs = 0; nowMs < 600_000; nowMs += 1000) {
      for (const target of schedule.take(nowMs)) {
        tries++
        schedule.failed(target, { ms: nowMs, wall: nowMs })
      }
    }
    expect(tries).toBe(60)
  })
})

describe('after an outage', () => {
  const outageMs = 2 * hourMs
  /** How long after the outage each was asked again, for a cycle of so many milliseconds. */
  function delaysMs(everyMs: number) {
    const all = names('A', 30)
    const phaseOf = (name: string) => all.indexOf(name) / all.length
    const schedule = new CycleSchedule<string>({ ...options, phaseOf, everyMs })
    schedule.retarget(all, all.length, 0)
    const delays = new Map<string, number>()
    let requests = 0
    for (let nowMs = 0; delays.size < all.length && nowMs < outageMs + 4 * everyMs + hourMs; nowMs += 1000) {
      const now = { ms: nowMs, wall: nowMs }
      for (const name of schedule.take(nowMs)) {
        if (nowMs < outageMs) {
          requests++
          schedule.failed(name, now)
        } else {
          delays.set(name, nowMs - outageMs)
          schedule.responded(name, String(nowMs), null, now)
        }
      }
    }
    expect(delays.size).toBe(all.length)
    return { maxMs: Math.max(...delays.values()), requestsPerTarget: requests / all.length }
  }

  test('each is asked at its next place in a short cycle, however long the outage was', () => {
    const { maxMs, requestsPerTarget } = delaysMs(10_000)
    expect(maxMs).toBeLessThanOrEqual(11_000)
    expect(requestsPerTarget).toBeLessThanOrEqual(outageMs / 10_000 + 1)
  })

  test('each is asked within a minute in a long one', () => {
    const { maxMs, requestsPerTarget } = delaysMs(6 * hourMs)
    expect(maxMs).toBeLessThanOrEqual(61_000)
    expect(requestsPerTarget).toBeLessThanOrEqual(outageMs / 60_000 + 5)
  })
})

test.each([0.02, 0.1, 0.3, 0.6])(
  'an outage in which a share of %d of the requests is answered lets few be asked late after it',
  (share) => {
    const all = names('A', 100)
    let late = 0
    const rounds = 10
    for (let round = 0; round < rounds; round++) {
      const schedule = new CycleSchedule<string>({ ...options, phaseOf: (name) => all.indexOf(name) / 100 })
      schedule.retarget(all, all.length, 0)
      const random = numbers(round + 1)
      const untilMs = hourMs + round * 37_000
      const after = new Set<string>()
      for (let nowMs = 0; nowMs < untilMs + 60_000; nowMs += 1000) {
        const now = { ms: nowMs, wall: nowMs }
        for (const name of schedule.take(nowMs)) {
          if (nowMs >= untilMs) after.add(name)
          if (nowMs >= untilMs || random() < share) schedule.responded(name, String(nowMs), null, now)
          else schedule.failed(name, now)
        }
      }
      late += all.length - after.size
    }
    expect(late / (all.length * rounds)).toBeLessThan(0.1)
  },
)

test('whatever comes back: nobody who has brought something is starved, and the places are never exceeded', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('lively', 'empty', 'frozen', 'rare'), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 20 }),
      (kinds, slots) => {
        const all = kinds.map((kind, i) => `${kind}${i}`)
        const { run, asked, schedule } = market(all, slots)
        const untilMs = hourMs / 2
        run(
          untilMs,
          (name, nowMs) => {
            if (name.startsWith('lively')) return String(nowMs)
            if (name.startsWith('empty')) return null
            return name.startsWith('rare') ? String(Math.floor(nowMs / 300_000)) : 'frozen'
          },
          (name) => (name.startsWith('empty') ? String(Math.random()) : 'x'),
        )
        // Asked for all the time: the first of the ranking that are lively, as many as there are places beside slower ones.
        const first = all.find((name) => name.startsWith('lively'))
        if (first !== undefined && all.indexOf(first) < slots)
          expect(asked(first)).toBeGreaterThan(untilMs / everyMs - 10)
        const total = all.reduce((sum, name) => sum + asked(name, 600_000), 0)
        expect(total).toBeLessThanOrEqual(((slots * 1.05 + 1) * (untilMs - 600_000)) / everyMs + all.length)
        const { covered, leftOut } = schedule.counts(untilMs)
        expect(covered + leftOut).toBe(all.length)
      },
    ),
    { numRuns: 60 },
  )
})
