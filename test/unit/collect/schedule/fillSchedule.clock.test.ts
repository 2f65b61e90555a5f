import { describe, expect, test } from 'vitest'
import type { SeenFill } from '../../../../src/collect/schedule/fillEstimate.js'
import { FillSchedule } from '../../../../src/collect/schedule/fillSchedule.js'

const service = 1_760_000_000_000
const second = 1_000
const names = ['A', 'B', 'C', 'D', 'E']
/** Time between two fills of each instrument: a page holds 50 s. */
const everyMs = 500
const untilMs = 240 * second

interface Case {
  readonly step: string
  /** How far the service's clock is ahead at a moment of the monotonic clock. */
  readonly aheadMs: (nowMs: number) => number
  /** Whether the fills' own times are of the clock that is ahead. */
  readonly areFillsAhead: boolean
  readonly haveTickers: boolean
}

/** Polls with one request each 50 ms; returns the longest time between two responses of an instrument, and lateness. */
function poll({ aheadMs, areFillsAhead, haveTickers }: Omit<Case, 'step'>) {
  const schedule = new FillSchedule<string>(String, { groupOf: () => '', minPollMs: 50, maxPollMs: 600_000 })
  schedule.retarget(names, 0)
  const respondedMs = new Map(names.map((name) => [name, 0]))
  let [longestMs, late] = [0, 0]
  const fillsAt = (nowMs: number): SeenFill[] =>
    Array.from({ length: 100 }, (_, index) => {
      const ts = (Math.floor(nowMs / everyMs) - index) * everyMs
      return { ts: service + ts + (areFillsAhead ? aheadMs(ts) : 0), size: '2' }
    })
  for (let now = 0; now <= untilMs; now += 50) {
    if (haveTickers && now % (5 * second) === 0) {
      const madeAt = now - 100
      const volume24h = String(1e6 + 2 * Math.floor(madeAt / everyMs))
      schedule.takeTickers(() => ({ ts: service + madeAt + aheadMs(madeAt), volume24h, lastPrice: volume24h }), now)
    }
    late = Math.max(late, schedule.counts(now).lateTargets)
    const name = schedule.choose(now)?.target
    for (const [other, atMs] of respondedMs)
      if (other === name || now === untilMs) longestMs = Math.max(longestMs, now - atMs)
    if (name === undefined) continue
    respondedMs.set(name, now)
    schedule.responded(name, fillsAt(now), service + now + aheadMs(now), now)
  }
  return { longestMs, late }
}

describe('a step of the clock of the service', () => {
  const fiveMinutes = 270 * second
  const day = 20 * 3_600 * second
  const back = (ms: number) => (nowMs: number) => (nowMs < 75 * second ? ms : 0)
  const forthAndBack = (ms: number) => (nowMs: number) => (nowMs >= 40 * second && nowMs < 115 * second ? ms : 0)
  const steps = [
    { step: 'back by less than five minutes', aheadMs: back(fiveMinutes) },
    { step: 'forth and back by less than five minutes', aheadMs: forthAndBack(fiveMinutes) },
    { step: 'forth and back by most of a day', aheadMs: forthAndBack(day) },
  ]
  const cases = steps.flatMap((step) =>
    [true, false].flatMap((areFillsAhead) =>
      [true, false].map((haveTickers): Case => ({ ...step, areFillsAhead, haveTickers })),
    ),
  )

  test.each(cases)('$step: every instrument is asked in time (fills $areFillsAhead, tickers $haveTickers)', (one) => {
    // A page holds the fills of 50 s.
    const { longestMs, late } = poll(one)
    expect(longestMs).toBeLessThan(30 * second)
    expect(late).toBe(0)
  })
})
