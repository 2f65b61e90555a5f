import fc from 'fast-check'
import { expect, test } from 'vitest'
import { leaseMs, rightMs, SendingRight } from '../../../src/lease/right.js'
import { stretchFrom, systemClock } from '../../../src/runtime/clock.js'

function aMachine() {
  const time = { mono: 1_000, uptime: 500_000, wall: 1_700_000_000_000 }
  const clock = {
    ...systemClock,
    now: () => time.wall,
    monotonicMs: () => time.mono,
    uptimeMs: () => time.uptime,
  }
  return {
    right: new SendingRight(clock),
    now: () => stretchFrom(clock),
    passes: (ms: number) => {
      time.mono += ms
      time.uptime += ms
      time.wall += ms
    },
    sleeps: (ms: number) => {
      time.uptime += ms
      time.wall += ms
    },
    clockIsSet: (ms: number) => {
      time.wall += ms
    },
  }
}

test('the right ends 3 s after the proof was asked for, and half a second before anybody else can have it', () => {
  const { right, now, passes } = aMachine()
  expect(right.holds()).toBe(false)
  const asked = now()
  passes(900)
  right.proven(asked, true)
  passes(2_099)
  expect(right.holds()).toBe(true)
  passes(1)
  expect(right.holds()).toBe(false)
  expect(leaseMs - rightMs).toBe(500)
})

test('a suspended machine has no right on waking, and a clock that is set back gives none', () => {
  const { right, now, sleeps, clockIsSet, passes } = aMachine()
  right.proven(now(), false)
  sleeps(5_000)
  expect(right.holds()).toBe(false)
  right.proven(now(), false)
  clockIsSet(-60_000)
  passes(3_000)
  expect(right.holds()).toBe(false)
})

test('a machine that was suspended asks the database, and no failure gives it the right back', () => {
  for (const failure of ['takeover prevented', 'row locked', 'unknown'] as const) {
    const { right, now, sleeps, passes } = aMachine()
    right.proven(now(), false)
    passes(500)
    right.failed(now(), failure)
    // It was asking when it fell asleep.
    const asked = now()
    sleeps(20_000)
    right.failed(asked, failure)
    for (let round = 0; round < 10; round++) {
      passes(500)
      right.failed(now(), failure)
      expect(right).toMatchObject({ hasSlept: true })
      expect(right.holds()).toBe(false)
    }
    right.proven(now(), false)
    for (let round = 0; round < 10; round++) {
      passes(500)
      right.failed(now(), failure)
    }
    expect(right.holds()).toBe(true)
  }
})

test.each([-8 * 3_600_000, -3_000, 3_000, 60_000, 86_400_000])(
  'a clock that is set by %i ms while the database is away ends no right',
  (stepMs) => {
    const { right, now, clockIsSet, passes } = aMachine()
    right.proven(now(), false)
    for (let round = 0; round < 20; round++) {
      if (round === 5) clockIsSet(stepMs)
      expect(right.holds()).toBe(true)
      const asked = now()
      passes(500)
      if (round === 10) clockIsSet(stepMs)
      right.failed(asked, 'unknown')
    }
    expect(right).toMatchObject({ hasSlept: false })
    expect(right.holds()).toBe(true)
  },
)

test('where nobody can be given the row the right goes on, but does not begin again', () => {
  const { right, now, passes } = aMachine()
  right.proven(now(), true)
  for (let round = 0; round < 100; round++) {
    passes(500)
    right.failed(now(), 'takeover prevented')
    expect(right.holds()).toBe(true)
  }
  passes(3_000)
  right.failed(now(), 'takeover prevented')
  expect(right.holds()).toBe(false)
})

test('a lock that may be too short to stop a look extends nothing, and a longer one does', () => {
  const { right, now, passes } = aMachine()
  right.proven(now(), true)
  for (let round = 0; round < 100; round++) {
    const asked = now()
    passes(700)
    right.failed(asked, 'row locked')
    expect(right.holds()).toBe(true)
    passes(100)
  }
  // Between two short locks another recorder may look. One of them may then take the row.
  right.proven(now(), true)
  for (const failure of ['row locked', 'unknown', 'row locked'] as const) {
    passes(900)
    right.failed(now(), failure)
  }
  passes(300)
  expect(right.holds()).toBe(false)
})

test('a lock gives back no right that has ended, because its holder may have taken the row', () => {
  const { right, now, passes } = aMachine()
  right.proven(now(), false)
  passes(10_000)
  for (let round = 0; round < 10; round++) {
    passes(800)
    right.failed(now(), 'row locked')
    expect(right.holds()).toBe(false)
  }
})

test('a process that was stopped asks the database again, should the first renewal get no response', () => {
  const { right, now, passes } = aMachine()
  right.proven(now(), false)
  passes(10_000)
  // Its old connection is broken, which says nothing of the database.
  right.failed(now(), 'unknown')
  expect(right.holds()).toBe(false)
  passes(500)
  right.failed(now(), 'unknown')
  expect(right.holds()).toBe(true)
})

test('silence ends it while another recorder waits, and does not while nobody does', () => {
  for (const isWaitedFor of [true, false]) {
    const { right, now, passes } = aMachine()
    right.proven(now(), isWaitedFor)
    for (let round = 0; round < 10; round++) {
      const asked = now()
      passes(1_000)
      right.failed(asked, 'unknown')
    }
    expect(right.holds()).toBe(!isWaitedFor)
    // Stopped while it asked: what it hears then is of before.
    const asked = now()
    passes(10_000)
    right.failed(asked, 'unknown')
    expect(right.holds()).toBe(false)
  }
})

test('once the database has said that it is another one’s, no failure brings it back', () => {
  const { right, now, passes } = aMachine()
  right.proven(now(), false)
  right.lost()
  const failure = fc.constantFrom('takeover prevented' as const, 'row locked' as const, 'unknown' as const)
  fc.assert(
    fc.property(fc.array(failure), (failures) => {
      for (const failure of failures) {
        passes(100)
        right.failed(now(), failure)
        expect(right.holds()).toBe(false)
      }
    }),
  )
})
