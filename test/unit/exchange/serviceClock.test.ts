import fc from 'fast-check'
import { pino } from 'pino'
import { beforeEach, describe, expect, it } from 'vitest'
import { ServiceClock } from '../../../src/exchange/serviceClock.js'
import { createRandom } from '../../../src/simulator/world/hash.js'
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

const justNow = (at: FakeClock) => ({ receivedAt: at.now(), receivedMs: at.monotonicMs() })

/** A response whose clock is off from ours by so much. */
const response = (aheadMs: number) =>
  service.judge({ requestTime: clock.now() + aheadMs, ...justNow(clock), roundTripMs: 0 }).isBelieved

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
    expect(service.judge({ requestTime: clock.now() + hourMs, ...justNow(clock), roundTripMs: 0 })).toEqual({
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
              requestTime: ours.now() + ahead + step,
              ...justNow(ours),
              roundTripMs: 0,
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
      requestTime: Number(clock.now()),
      receivedAt: clock.now() - 5 * hourMs,
      receivedMs: clock.monotonicMs(),
      roundTripMs: 0,
    }
    expect(service.judge(stepped).isBelieved).toBe(true)
  })
})

describe('the time of a response', () => {
  /** Responses of servers by turns that chance decides, one a second. Resolves to how far each time is off. */
  async function timesOf(
    clocksMs: readonly number[],
    count: number,
    seed: number,
    machineAheadMs = 0,
  ): Promise<number[]> {
    const ours = createFakeClock()
    const clockOfAll = new ServiceClock(ours, logger)
    const random = createRandom(seed)
    const off: number[] = []
    for (let i = 0; i < count; i++) {
      const roundTripMs = 20 + Math.floor(random() * 400)
      await ours.advance(1_000)
      const madeAt = ours.now() - Math.floor(random() * roundTripMs)
      const ahead = clocksMs[Math.floor(random() * clocksMs.length)] ?? 0
      const judged = clockOfAll.judge({
        requestTime: madeAt + ahead,
        receivedAt: ours.now() + machineAheadMs,
        receivedMs: ours.monotonicMs(),
        roundTripMs,
      })
      if (judged.isBelieved) off.push(judged.serviceTime - madeAt)
      if (machineAheadMs <= 0) expect((clockOfAll.now() ?? 0) - ours.now()).toBeLessThan(1_000)
    }
    return off
  }

  it('is its own, where all servers have one clock', async () => {
    for (let seed = 1; seed <= 20; seed++) expect(new Set(await timesOf([0], 300, seed))).toEqual(new Set([0]))
  })

  it('is not that of one server of three which is minutes ahead', async () => {
    for (let seed = 1; seed <= 50; seed++) {
      const off = await timesOf([0, 0, 280_000], 600, seed)
      // How long a response is under way is not known, so that it may seem to be made as late as it came.
      expect(Math.max(...off)).toBeLessThan(1_000)
    }
  })

  it('is bounded by most others, where our clock is ahead, too', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const off = await timesOf([0, 0, 200_000], 600, seed, 200_000)
      expect(Math.max(...off.slice(16))).toBeLessThan(1_000)
    }
  })

  it('is its own from the start, where our clock was contradicted by all', async () => {
    const off = await timesOf([0], 60, 1, -7 * hourMs)
    expect(off.length).toBeGreaterThan(20)
    expect(new Set(off)).toEqual(new Set([0]))
  })

  it('is mostly its own, where one server of three is minutes behind', async () => {
    const off: number[] = []
    for (let seed = 1; seed <= 20; seed++) off.push(...(await timesOf([0, 0, -280_000], 600, seed)).slice(200))
    expect(Math.max(...off)).toBe(0)
    expect(off.filter((ms) => ms === 0).length).toBeGreaterThan(0.5 * off.length)
  })

  it('is its own after a suspension of the machine', async () => {
    const ours = createFakeClock()
    let sleptMs = 0
    const awake = new ServiceClock(
      { ...ours, now: () => ours.now() + sleptMs, uptimeMs: () => ours.uptimeMs() + sleptMs },
      logger,
    )
    const judged = () => {
      const requestTime = ours.now() + sleptMs
      return awake.judge({ requestTime, receivedAt: requestTime, receivedMs: ours.monotonicMs(), roundTripMs: 10 })
    }
    for (let i = 0; i < 200; i++) {
      await ours.advance(100)
      judged()
    }
    sleptMs = 3 * hourMs
    expect(judged()).toEqual({ isBelieved: true, serviceTime: ours.now() + sleptMs })
    expect(awake.now()).toBe(ours.now() + sleptMs)
  })
})
