import fc from 'fast-check'
import { pino } from 'pino'
import { beforeEach, describe, expect, it } from 'vitest'
import { ServiceClock } from '../../../src/exchange/serviceClock.js'
import { createFakeClock, type FakeClock } from '../../support/fakeClock.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

const logger = pino({ level: 'silent' })
let clock: FakeClock
let service: ServiceClock

beforeEach(() => {
  clock = createFakeClock()
  service = new ServiceClock(clock, logger)
})

/** A response whose clock is off from ours by so much. */
const response = (aheadMs: number) =>
  service.judge({ sentAt: clock.now(), requestTime: clock.now() + aheadMs, receivedAt: clock.now() }).isBelieved

describe("a response's time", () => {
  it('is believed when it is within minutes of ours', () => {
    for (const aheadMs of [0, 200, -3_000, 4 * minuteMs, -4 * minuteMs]) expect(response(aheadMs)).toBe(true)
  })

  it('is not believed when it is hours or years away, and what comes after it is', () => {
    for (const aheadMs of [hourMs, -hourMs, 1_974 * 365 * 24 * hourMs, -(clock.now() - 1)]) {
      expect(response(aheadMs)).toBe(false)
      expect(response(10)).toBe(true)
    }
  })

  it('says by how much it is off', () => {
    const receivedAt = clock.now()
    expect(service.judge({ sentAt: receivedAt, requestTime: receivedAt + hourMs, receivedAt })).toEqual({
      isBelieved: false,
      aheadMs: hourMs,
    })
  })

  it('is never believed with an honest response now and then, however often it comes', async () => {
    for (let i = 0; i < 1_000; i++) {
      if (i % 9 === 0) expect(response(0)).toBe(true)
      else expect(response(2 * hourMs)).toBe(false)
      await clock.advance(1_000)
    }
  })

  it('is believed, although it is hours away, when every response for half a minute says so', async () => {
    const believed: boolean[] = []
    for (let i = 0; i < 40; i++) {
      believed.push(response(-7 * hourMs + (i % 3) * 100))
      await clock.advance(1_000)
    }
    expect(believed.indexOf(true)).toBe(30)
    expect(believed.slice(30)).not.toContain(false)
    // Our clock is set right.
    expect(response(0)).toBe(true)
  })

  it('takes time to be confirmed, not only responses', () => {
    for (let i = 0; i < 1_000; i++) expect(response(hourMs)).toBe(false)
  })

  it('is never confirmed when it is more than a day away', async () => {
    for (let i = 0; i < 200; i++) {
      expect(response(25 * hourMs)).toBe(false)
      await clock.advance(1_000)
    }
  })

  it('cannot be led away in small steps', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 299_000 }), { minLength: 50, maxLength: 50 }),
        async (steps) => {
          const ours = createFakeClock()
          const led = new ServiceClock(ours, logger)
          let ahead = 0
          let furthest = 0
          for (const step of steps) {
            const { isBelieved } = led.judge({
              sentAt: ours.now(),
              requestTime: ours.now() + ahead + step,
              receivedAt: ours.now(),
            })
            if (isBelieved) {
              ahead += step
              furthest = Math.max(furthest, ahead)
            }
            await ours.advance(1_000)
          }
          // The tolerance twice: once from our clock, once from the reference.
          expect(furthest).toBeLessThanOrEqual(11 * minuteMs)
        },
      ),
    )
  })

  it('is believed by what it was before when our clock is set to something else', async () => {
    expect(response(0)).toBe(true)
    await clock.advance(1_000)
    const stepped = {
      sentAt: clock.now() - 5 * hourMs,
      requestTime: Number(clock.now()),
      receivedAt: clock.now() - 5 * hourMs,
    }
    expect(service.judge(stepped).isBelieved).toBe(true)
  })
})
