import { describe, expect, it } from 'vitest'
import type { Operation } from '../../../../src/market/operation.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, setUp } from '../../../support/pacing.js'

const minuteMs = 60_000

interface Count {
  fills: number
  others: number
  refused: number
}

/** Requests of each minute to a service that admits fewer fills than it says, and counts refused ones, too. */
async function minutesOf(count: number, perSecond: (minute: number) => number) {
  const { clock, pacer } = setUp({ limits: limitsOf(20), latencyJitterMs: 100, maxInFlight: 64 })
  const startMs = clock.monotonicMs()
  const minutes = Array.from({ length: count + 1 }, (): Count => ({ fills: 0, others: 0, refused: 0 }))
  let arrivals: number[] = []
  const keepSending = async (operation: Operation, everyMs: number, worker: number) => {
    for (let turn = worker; ; turn += 10) {
      const target = `${operation} ${turn % 200}`
      const departure = await pacer.acquire(operation, { target })
      await clock.sleep(30)
      const atMs = clock.monotonicMs() - startMs
      const minute = Math.floor(atMs / minuteMs)
      if (operation === 'fills') arrivals = [...arrivals.filter((ms) => ms > atMs - 1_000), atMs]
      const isRefused = operation === 'fills' && arrivals.length > perSecond(minute)
      const counted = minutes[minute] as Count
      counted[isRefused ? 'refused' : operation === 'fills' ? 'fills' : 'others']++
      await clock.sleep(30)
      pacer.responded(departure)
      if (isRefused) pacer.settle(departure, { outcome: 'rate-limited', mayBeAlone: true }, 'unknown', target)
      else pacer.settle(departure, answered, 'works', target)
      await clock.sleep(everyMs)
    }
  }
  for (let worker = 0; worker < 4; worker++) void keepSending('fills', 0, worker)
  for (const other of ['tickers', 'candles'] as const)
    for (let worker = 0; worker < 2; worker++) void keepSending(other, 400, worker)
  await clock.advance(count * minuteMs)
  const sum = (fromMinute: number, toMinute: number) => {
    const total: Count = { fills: 0, others: 0, refused: 0 }
    for (const { fills, others, refused } of minutes.slice(fromMinute, toMinute)) {
      total.fills += fills
      total.others += others
      total.refused += refused
    }
    return total
  }
  return sum
}

describe('a limit of one operation that the service has lowered to a tenth', () => {
  it('slows this operation alone, which stays near it', { timeout: 60_000 }, async () => {
    const sum = await minutesOf(15, (minute) => (minute < 2 ? 20 : 2))
    const usual = sum(1, 2)
    expect(sum(0, 15).refused).toBeLessThan(20)
    const { fills, others, refused } = sum(4, 14)
    expect(refused).toBeLessThan(10)
    expect(others).toBeGreaterThan(0.95 * 10 * usual.others)
    expect(fills).toBeGreaterThan(0.75 * 10 * 120)
  })

  it('is used in full some minutes after it is back', { timeout: 60_000 }, async () => {
    const sum = await minutesOf(13, (minute) => (minute < 2 || minute >= 4 ? 20 : 2))
    expect(sum(12, 13).fills).toBeGreaterThan(0.98 * sum(1, 2).fills)
    expect(sum(4, 13).refused).toBe(0)
  })
})

it('an overall limit that the service has lowered is met twice in an hour', { timeout: 60_000 }, async () => {
  const { clock, pacer } = setUp({ limits: limitsOf(20, 600) })
  const arrivals: number[] = []
  let blocks = 0
  let blockedUntilMs = 0
  const keepSending = async (operation: Operation, worker: number) => {
    for (let turn = worker; ; turn += 10) {
      const target = `${operation} ${turn % 200}`
      const departure = await pacer.acquire(operation, { target })
      const nowMs = clock.monotonicMs()
      arrivals.push(nowMs)
      while ((arrivals[0] ?? nowMs) <= nowMs - minuteMs) arrivals.shift()
      if (nowMs >= blockedUntilMs && arrivals.length > 400) {
        blocks++
        blockedUntilMs = nowMs + 5 * minuteMs
      }
      const isRefused = nowMs < blockedUntilMs
      await clock.sleep(50)
      if (isRefused) pacer.settle(departure, { outcome: 'rate-limited', mayBeAlone: true }, 'unknown', target)
      else pacer.settle(departure, answered, 'works', target)
    }
  }
  for (const operation of ['fills', 'tickers', 'candles'] as const)
    for (let worker = 0; worker < 3; worker++) void keepSending(operation, worker)
  await clock.advance(60 * minuteMs)
  expect(blocks).toBe(2)
  expect(pacer.stats().rate).toBeLessThan(400 / 600)
})
