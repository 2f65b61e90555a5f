import fc from 'fast-check'
import { pino } from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { ClockSkew } from '../../../../src/collect/poll/clockSkew.js'
import { createFakeClock, type FakeClock } from '../../../support/fakeClock.js'

let lines: string[]
let clock: FakeClock
let skew: ClockSkew

beforeEach(() => {
  lines = []
  clock = createFakeClock()
  skew = new ClockSkew(
    clock,
    pino({ base: null }, { write: (line: string) => lines.push((JSON.parse(line) as { msg: string }).msg) }),
  )
})

const answer = (aheadMs: number, there: number, back: number, at = 1_000_000) => ({
  sentAt: at + aheadMs,
  requestTime: at + there,
  receivedAt: at + there + back + aheadMs,
})

describe("our clock against the service's", () => {
  test('the true difference lies within the uncertainty, whatever the way took', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1e6, max: 1e6 }), fc.nat(5_000), fc.nat(5_000), (aheadMs, there, back) => {
        const measured = new ClockSkew(clock, pino({ level: 'silent' }))
        measured.observe(answer(aheadMs, there, back))
        const { aheadMs: found = 0, uncertaintyMs = 0 } = measured.skew ?? {}
        expect(Math.abs(found - aheadMs)).toBeLessThanOrEqual(uncertaintyMs + 0.5)
      }),
    )
  })

  test('the quickest answer counts, and is forgotten after a minute', async () => {
    skew.observe(answer(0, 10, 10))
    skew.observe(answer(0, 10, 4_000))
    expect(skew.skew).toMatchObject({ aheadMs: 0, uncertaintyMs: 10 })
    await clock.advance(61_000)
    skew.observe(answer(500, 100, 100))
    expect(skew.skew).toMatchObject({ aheadMs: 500, uncertaintyMs: 100 })
  })

  test('is warned about once beyond a second, and once when it is over', async () => {
    skew.observe(answer(-90_000, 20, 20))
    skew.observe(answer(-90_000, 10, 10))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain("90.0 s behind the service's")
    await clock.advance(61_000)
    skew.observe(answer(3, 10, 10))
    expect(lines[1]).toContain('agrees')
  })

  test('a slow answer is no proof of a wrong clock', () => {
    skew.observe(answer(0, 0, 9_000))
    expect(lines).toEqual([])
  })
})
