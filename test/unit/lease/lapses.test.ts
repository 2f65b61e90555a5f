import { pino } from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { Lapses } from '../../../src/lease/lapses.js'
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

/** A process that stands still for 3 s and whose row is renewed 400 ms later. */
async function standStill(): Promise<void> {
  lapses.renewed()
  await clock.advance(3_000)
  lapses.look()
  lapses.begin()
  await lookFor(400)
  lapses.renewed()
  expect(lapses.end()).toBe(true)
}

test('a renewal that comes late on a busy machine is told once, without a warning and with its cause', async () => {
  await standStill()
  const told =
    'requests from here waited 0.4 s for a late renewal: this machine was too busy, and this process stood still for 3.0 s; no other recorder had the right to send'
  expect(lines).toMatchObject([{ level: 30, msg: told }])
  for (let i = 0; i < 50; i++) await standStill()
  expect(lines).toHaveLength(1)
  await lookFor(600_000)
  await standStill()
  expect(lines).toHaveLength(2)
  expect(lines[1]?.msg).toContain('waited 0.4 s for a late renewal, the last of 51: this machine was too busy')
})

test('a lapse of five seconds is a warning, and says that the database is slow where this process did not stand still', async () => {
  await lookFor(3_000)
  lapses.begin()
  await lookFor(4_900)
  expect(lines).toEqual([])
  await lookFor(10_000)
  expect(lines).toMatchObject([
    { level: 40, msg: 'nothing is sent from here until its row is renewed: the database was slow to respond' },
  ])
  expect(lapses.end()).toBe(true)
  expect(lines[1]).toMatchObject({ level: 30, msg: expect.stringContaining('waited 14.9 s') as string })
})

test('nothing is told of a recorder that lost its row, or that never waited', () => {
  expect(lapses.end()).toBe(false)
  lapses.begin()
  lapses.drop()
  expect(lapses.end()).toBe(false)
  expect(lines).toEqual([])
})
