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
  incidents.failed('database', 'b')
  expect(lines).toEqual(['fills: a', 'database: b'])
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
