import fc from 'fast-check'
import { pino } from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { ServiceClock } from '../../../src/exchange/serviceClock.js'
import { createFakeClock, type FakeClock } from '../../support/fakeClock.js'

let lines: string[]
let clock: FakeClock
let service: ServiceClock

beforeEach(() => {
  lines = []
  clock = createFakeClock()
  service = new ServiceClock(
    clock,
    pino({ base: null }, { write: (line: string) => lines.push((JSON.parse(line) as { msg: string }).msg) }),
  )
})

const answer = (aheadMs: number, there: number, back: number, at = clock.now()) => ({
  requestTime: at + there,
  receivedAt: at + there + back + aheadMs,
  receivedMs: clock.monotonicMs(),
  roundTripMs: there + back,
})

describe("our clock against the service's", () => {
  test('the true difference lies within the uncertainty, whatever the way took', () => {
    fc.assert(
      fc.property(fc.integer({ min: -280_000, max: 280_000 }), fc.nat(5_000), fc.nat(5_000), (aheadMs, there, back) => {
        const measured = new ServiceClock(clock, pino({ level: 'silent' }))
        measured.judge(answer(aheadMs, there, back))
        const { aheadMs: found = 0, uncertaintyMs = 0 } = measured.skew ?? {}
        expect(Math.abs(found - aheadMs)).toBeLessThanOrEqual(uncertaintyMs + 0.5)
      }),
    )
  })

  test('the quickest answer counts, and is forgotten after a minute', async () => {
    service.judge(answer(0, 10, 10))
    service.judge(answer(0, 10, 4_000))
    expect(service.skew).toMatchObject({ aheadMs: 0, uncertaintyMs: 10 })
    await clock.advance(61_000)
    service.judge(answer(500, 100, 100))
    expect(service.skew).toMatchObject({ aheadMs: 500, uncertaintyMs: 100 })
  })

  test('is warned about once beyond a second, and once when it is over', async () => {
    service.judge(answer(-90_000, 20, 20))
    service.judge(answer(-90_000, 10, 10))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain("90.0 s behind the service's")
    await clock.advance(61_000)
    service.judge(answer(3, 10, 10))
    expect(lines[1]).toContain('agrees')
  })

  test('a slow answer is no proof of a wrong clock', () => {
    service.judge(answer(0, 0, 9_000))
    expect(lines).toEqual([])
  })
})
