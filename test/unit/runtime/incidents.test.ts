import { pino } from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createFakeClock, type FakeClock } from '../../support/fakeClock.js'

let clock: FakeClock
let lines: string[]
let incidents: Incidents
beforeEach(() => {
  clock = createFakeClock()
  lines = []
  const logger = pino(
    { base: null },
    { write: (line: string) => lines.push((JSON.parse(line) as { msg: string }).msg) },
  )
  incidents = new Incidents(logger, clock)
})

test('a storm in which every second attempt fails is one incident: a line at its start, one each half minute, one at its end', async () => {
  for (let second = 0; second < 100; second++) {
    incidents.failed('fills', 'HTTP 502')
    incidents.succeeded('fills')
    await clock.advance(1_000)
  }
  expect(lines).toHaveLength(4)
  expect(lines[0]).toBe('fills: HTTP 502')
  expect(lines[3]).toContain('still failing, 91 times in 90 s')
  incidents.succeeded('fills')
  expect(lines).toHaveLength(4)
  await clock.advance(10_000)
  incidents.succeeded('fills')
  expect(lines[4]).toBe('fills: works again after 110 s, in which it failed 100 times')
  expect(incidents.recent()).toHaveLength(1)
})

test('different things are different incidents', () => {
  incidents.failed('fills', 'a')
  incidents.failed('storing', 'b')
  expect(lines).toEqual(['fills: a', 'storing: b'])
})

test('of a thing with parts, the incident lasts until every part that failed works again', async () => {
  incidents.failed('tickers', 'tickers SPOT: no such category', 'SPOT')
  await clock.advance(20_000)
  incidents.succeeded('tickers', 'USDT-FUTURES')
  expect(lines).toEqual(['tickers: tickers SPOT: no such category'])
  expect(incidents.recent()[0]?.until).toBeNull()
  incidents.failed('tickers', 'tickers COIN-FUTURES: HTTP 502', 'COIN-FUTURES')
  await clock.advance(20_000)
  incidents.succeeded('tickers', 'SPOT')
  expect(incidents.recent()[0]?.until).toBeNull()
  incidents.succeeded('tickers', 'COIN-FUTURES')
  expect(incidents.recent()[0]?.until).toBe(clock.now())
})

test('what is not asked for any more neither fails nor works: its incident is over when nothing else of it fails', async () => {
  incidents.failed('tickers', 'tickers SPOT: HTTP 502', 'SPOT')
  incidents.failed('tickers', 'tickers USDT-FUTURES: HTTP 502', 'USDT-FUTURES')
  incidents.keepOnly('tickers', new Set(['SPOT']))
  await clock.advance(20_000)
  incidents.succeeded('tickers', 'COIN-FUTURES')
  expect(incidents.recent()[0]?.until).toBeNull()
  incidents.keepOnly('tickers', new Set())
  expect(incidents.recent()[0]?.until).toBe(clock.now())
  expect(lines[1]).toBe('tickers: no longer asked for after 20 s, in which it failed 2 times')
  incidents.keepOnly('tickers', new Set())
  expect(lines).toHaveLength(2)
  incidents.failed('tickers', 'tickers SPOT: HTTP 502', 'SPOT')
  expect(incidents.recent()).toHaveLength(2)
})

test('what works again, but was not seen to for long enough when it is no longer asked for, is over', async () => {
  incidents.failed('tickers', 'tickers SPOT: HTTP 502', 'SPOT')
  await clock.advance(1_000)
  incidents.succeeded('tickers', 'SPOT')
  incidents.keepOnly('tickers', new Set(['USDT-FUTURES']))
  expect(incidents.recent()[0]?.until).toBeNull()
  incidents.keepOnly('tickers', new Set())
  expect(incidents.recent()[0]?.until).toBe(clock.now())
})

test('what works again at once, and is not heard of after that, is over when it was quiet for long enough', async () => {
  const begin = clock.now()
  incidents.failed('lost snapshots', 'connection refused', 'tickers')
  await clock.advance(1_000)
  incidents.succeeded('lost snapshots', 'tickers')
  await clock.advance(8_999)
  expect(incidents.recent()[0]?.until).toBeNull()
  await clock.advance(3_600_000)
  expect(incidents.recent()[0]?.until).toBe(begin + 10_000)
  expect(lines[1]).toBe('lost snapshots: works again after 10 s, in which it failed once')
  incidents.failed('lost snapshots', 'connection refused', 'tickers')
  await clock.advance(1_000)
  incidents.succeeded('lost snapshots', 'tickers')
  await clock.advance(3_600_000)
  // Nobody asked meanwhile.
  incidents.failed('lost snapshots', 'connection refused', 'tickers')
  expect(incidents.recent()).toMatchObject([{ count: 1, until: null }, { count: 1 }, { count: 1 }])
})

test('an incident of what is still asked for goes on', async () => {
  incidents.failed('fills', 'HTTP 502')
  await clock.advance(20_000)
  incidents.keepOnly('fills', new Set(['']))
  incidents.keepOnly('tickers', new Set())
  expect(incidents.recent()[0]?.until).toBeNull()
})

test('the newest hundred incidents are kept, the newest first', async () => {
  for (let i = 1; i <= 120; i++) {
    incidents.failed('storing', `a write has taken longer than ${i} s`)
    await clock.advance(10_000)
    incidents.succeeded('storing')
  }
  const recent = incidents.recent()
  expect(recent).toHaveLength(100)
  expect(recent[0]).toMatchObject({ message: 'a write has taken longer than 120 s', count: 1 })
  expect(recent.at(-1)).toMatchObject({ message: 'a write has taken longer than 21 s' })
})

test('a delay that passes is no incident; one that goes on is, and a failure is at once', async () => {
  incidents.delayed('storing', 'writes take longer than 2 s', 'fills')
  await clock.advance(10_000)
  incidents.succeeded('storing', 'fills')
  expect(incidents.recent()).toEqual([])
  for (let second = 0; second < 30; second++) {
    incidents.delayed('storing', 'writes take longer than 2 s', 'fills')
    incidents.succeeded('storing', 'fills')
    await clock.advance(1_000)
  }
  expect(lines).toEqual([])
  incidents.delayed('storing', 'writes take longer than 2 s', 'fills')
  expect(lines).toEqual(['storing: writes take longer than 2 s'])
  expect(incidents.recent()).toMatchObject([{ what: 'storing', count: 31, until: null }])
  await clock.advance(10_000)
  incidents.succeeded('storing', 'fills')
  expect(lines[1]).toBe('storing: works again after 40 s, in which it failed 31 times')
  incidents.delayed('storing', 'writes take longer than 2 s', 'fills')
  incidents.failed('storing', 'connection refused', 'fills')
  expect(lines[2]).toBe('storing: connection refused')
  expect(incidents.recent()).toHaveLength(2)
})
