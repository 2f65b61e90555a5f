import { afterEach, expect, test, vi } from 'vitest'
import { pino } from 'pino'
import type { CandleSeries } from '../../../src/market/candle.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { EventHub } from '../../../src/serve/events.js'
import { createFakeClock } from '../../support/fakeClock.js'

type Send = Parameters<EventHub['add']>[0]['send']

const series: CandleSeries = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' }
const asked: string[] = []
const hub = new EventHub(
  {
    status: () => Promise.resolve({ number: asked.push('status') }),
    instrument: (wanted) => Promise.resolve({ symbol: wanted.symbol, number: asked.push(wanted.symbol) }),
  },
  systemClock,
  pino({ level: 'silent' }),
)
const leave: (() => void)[] = []

function page(watched: CandleSeries | null, send?: Send) {
  const received: string[] = []
  const take: Send = (event) => {
    received.push(event)
    return Promise.resolve()
  }
  leave.push(hub.add({ series: watched, send: send ?? take, drop: () => received.push('dropped') }))
  return received
}

afterEach(() => {
  for (const one of leave.splice(0)) one()
  asked.length = 0
})

test('each thing is asked for once, however many pages watch it', async () => {
  const first = page(series)
  const second = page({ ...series })
  const third = page(null)
  await vi.waitUntil(
    () => [first, second].every((events) => events.filter((e) => e === 'instrument').length >= 2),
    120_000,
  )
  expect(third).toContain('status')
  expect(third).not.toContain('instrument')
  const asks = asked.filter((what) => what === 'BTCUSDT').length
  // Once for each of two ticks, and once for the page that came after the first tick had begun.
  expect(asks).toBeLessThanOrEqual(first.filter((event) => event === 'instrument').length + 1)
})

test('a page that takes nothing gets nothing more, and delays nobody', async () => {
  const stuck: string[] = []
  page(null, (event) => {
    stuck.push(event)
    return new Promise(() => undefined)
  })
  const lively = page(null)
  await vi.waitUntil(() => lively.length >= 3, 120_000)
  expect(stuck).toHaveLength(1)
})

test('nothing is asked for when no page is open', async () => {
  const received = page(null)
  await vi.waitUntil(() => received.length > 0, 120_000)
  for (const one of leave.splice(0)) one()
  expect(hub.size).toBe(0)
  const before = asked.length
  await new Promise((resolve) => setTimeout(resolve, 1300))
  expect(asked.length).toBe(before)
})

test('a page that watches an instrument and takes nothing has two events waiting at most, and is dropped after half a minute', async () => {
  const clock = createFakeClock()
  const slow = new EventHub(
    { status: () => Promise.resolve({}), instrument: () => Promise.resolve({}) },
    clock,
    pino({ level: 'silent' }),
  )
  const sent: string[] = []
  let isDropped = false
  slow.add({
    series,
    send: (event) => {
      sent.push(event)
      return new Promise(() => undefined)
    },
    drop: () => {
      isDropped = true
    },
  })
  await clock.advance(29_000)
  expect(sent).toHaveLength(2)
  expect([isDropped, slow.size]).toEqual([false, 1])
  await clock.advance(4_000)
  expect([isDropped, slow.size]).toEqual([true, 0])
  slow.close()
})

test('pages that come and go share the reads of their first data', async () => {
  page(series)
  await expect.poll(() => asked.filter((what) => what === 'BTCUSDT').length).toBe(1)
  for (let count = 0; count < 1_000; count++)
    hub.add({ series, send: () => Promise.resolve(), drop: () => undefined })()
  const last = page({ ...series })
  await expect.poll(() => last).toContain('instrument')
  expect(asked.filter((what) => what === 'BTCUSDT').length).toBeLessThan(10)
})
