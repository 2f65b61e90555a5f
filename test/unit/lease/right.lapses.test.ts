import { pino } from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { Lapses } from '../../../src/lease/right.js'
import { createFakeClock, type FakeClock } from '../../support/fakeClock.js'

let clock: FakeClock
let lines: { readonly level: number; readonly msg: string }[]
let lapses: Lapses
beforeEach(() => {
  clock = createFakeClock()
  lines = []
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line) as (typeof lines)[number]) })
  lapses = new Lapses('here', logger, clock)
})

async function lookFor(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await clock.advance(100)
    lapses.look()
  }
}

test('nothing is said of a renewal that comes a little late', async () => {
  lapses.begin()
  await lookFor(4_900)
  expect(lapses.end()).toBe(true)
  await lookFor(10_000)
  expect(lines).toEqual([])
})

test('a lapse of five seconds is one warning', async () => {
  lapses.begin()
  await lookFor(10_000)
  const said = 'nothing is sent from here until its row is renewed: the database is slow, or this machine is too busy'
  expect(lines).toMatchObject([{ level: 40, msg: said }])
  expect(lapses.end()).toBe(false)
})

test('further long lapses of ten minutes are counted and told with the next one', async () => {
  const lapse = async () => {
    lapses.begin()
    await lookFor(6_000)
    return lapses.end()
  }
  expect(await lapse()).toBe(false)
  expect(await lapse()).toBe(true)
  expect(await lapse()).toBe(true)
  expect(lines).toHaveLength(1)
  await clock.advance(600_000)
  expect(await lapse()).toBe(false)
  expect(lines).toHaveLength(2)
  expect(lines[1]?.msg).toMatch(/; 2 times more since the last of these warnings$/)
})

test('a recorder that lost its row, or that never waited, had no lapse', async () => {
  expect(lapses.end()).toBe(false)
  lapses.begin()
  lapses.drop()
  await lookFor(10_000)
  expect(lapses.end()).toBe(false)
  expect(lines).toEqual([])
})
