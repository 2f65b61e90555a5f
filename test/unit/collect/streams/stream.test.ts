import { describe, expect, test } from 'vitest'
import { Outage } from '../../../../src/collect/streams/stream.js'
import type { ExchangeErrorKind } from '../../../../src/exchange/errors.js'

function outage() {
  const one = new Outage()
  const failed = (nowMs: number, kind: ExchangeErrorKind | null, target: string | null, startedMs = nowMs) =>
    one.failed('SPOT', { target, kind, message: `${kind}`, startedMs }, nowMs)
  return { one, failed }
}

describe('a category fails', () => {
  test('after 25 s without a response, from the time of the first request', () => {
    const { one, failed } = outage()
    failed(9_000, 'malformed', null, 1_000)
    expect(one.lasting(25_999)).toBeNull()
    expect(one.lasting(26_000)).toEqual({ categories: ['SPOT'], forMs: 25_000, message: 'malformed' })
    expect(one.reasonOf('SPOT', 26_000)).toBe('malformed')
    expect(one.reasonOf('MARGIN', 26_000)).toBeNull()
  })

  test('no longer than since its last response', () => {
    const { one, failed } = outage()
    one.responded('SPOT', 5_000)
    failed(9_000, 'malformed', null, 1_000)
    expect(one.lasting(29_999)).toBeNull()
    expect(one.lasting(30_000)).not.toBeNull()
  })

  test('no more once a response has come, or when it is not requested any more', () => {
    const { one, failed } = outage()
    failed(0, 'malformed', null)
    one.keepOnly(new Set(['SPOT']))
    expect(one.lasting(30_000)).not.toBeNull()
    one.responded('SPOT', 30_000)
    expect(one.lasting(90_000)).toBeNull()
    failed(90_000, 'malformed', null)
    one.keepOnly(new Set(['MARGIN']))
    expect(one.lasting(190_000)).toBeNull()
  })
})

describe('what passes by itself', () => {
  test.each(['unavailable', 'network', 'timeout'] as const)('is believed after a second failure: %s', (kind) => {
    const { one, failed } = outage()
    failed(0, kind, null)
    expect(one.lasting(60_000)).toBeNull()
    failed(8_000, kind, null)
    expect(one.lasting(60_000)).not.toBeNull()
  })
})

describe('of single instruments', () => {
  test.each(['unknown-symbol', 'removed-symbol', 'bad-request', 'rejected', 'unreadable'] as const)(
    'three must fail and none respond: %s',
    (kind) => {
      const { one, failed } = outage()
      failed(0, kind, 'A')
      failed(1_000, kind, 'B')
      for (let i = 0; i < 20; i++) failed(2_000, kind, 'A')
      expect(one.lasting(60_000)).toBeNull()
      failed(60_000, kind, 'C')
      expect(one.lasting(60_000)).toMatchObject({ forMs: 60_000 })
      one.responded('SPOT', 61_000)
      failed(62_000, kind, 'A')
      expect(one.lasting(162_000)).toBeNull()
    },
  )

  test('one is enough where the failure is not its own', () => {
    const { one, failed } = outage()
    failed(0, 'no-such-path', 'A')
    expect(one.lasting(25_000)).not.toBeNull()
  })

  test('an error of the program counts as that of its target', () => {
    const { one, failed } = outage()
    for (const target of ['A', 'B']) failed(0, null, target)
    expect(one.lasting(60_000)).toBeNull()
    failed(0, null, 'C')
    expect(one.lasting(60_000)).not.toBeNull()
  })
})

describe('empty responses', () => {
  const watch = () => {
    const one = new Outage()
    let now = 0
    /** Each target has this many rows, one second after the other. */
    const came = (rows: number, targets: readonly string[], times = 1, isList = false) => {
      for (let i = 0; i < times; i++)
        for (const target of targets) one.responded('SPOT', (now += 1_000), { target, isList, rows })
    }
    return { came, lasting: () => one.lasting(now), reason: () => one.reasonOf('SPOT', now) }
  }

  test('of all targets that had rows are a failure after 25 s, until one has rows again', () => {
    const { came, lasting, reason } = watch()
    came(100, ['A', 'B', 'C', 'D'], 5)
    came(0, ['A', 'B', 'C', 'D'], 6)
    expect(lasting()).toBeNull()
    came(0, ['A', 'B'])
    expect(lasting()).toEqual({ categories: ['SPOT'], forMs: 25_000, message: reason() })
    expect(reason()).toContain('empty')
    came(1, ['C'])
    expect(reason()).toBeNull()
    came(0, ['A', 'B'], 50)
    expect(reason()).toBeNull()
  })

  test('are none of quiet targets, of a few, or where others have rows', () => {
    const { came, reason } = watch()
    came(100, ['A', 'B'], 5)
    came(100, ['Q', 'R', 'S'], 4)
    came(0, ['Q', 'R', 'S'], 50)
    came(0, ['A', 'B'], 50)
    expect(reason()).toBeNull()
    came(100, ['A', 'B', 'C'], 9)
    for (let i = 0; i < 50; i++) {
      came(0, ['A', 'B', 'C'])
      came(2, ['E'])
    }
    expect(reason()).toBeNull()
  })

  test('of a list are a failure when it has lost half of its rows', () => {
    const { came, reason } = watch()
    came(12, ['list'], 5, true)
    came(6, ['list'], 60, true)
    expect(reason()).toBeNull()
    came(2, ['list'], 26, true)
    expect(reason()).toContain('half')
    came(6, ['list'], 1, true)
    expect(reason()).toBeNull()
  })

  test('of a list are none any more once it has stayed short for ten minutes', () => {
    const { came, reason } = watch()
    came(3_393, ['list'], 100, true)
    came(580, ['list'], 590, true)
    expect(reason()).toContain('half')
    came(580, ['list'], 20, true)
    expect(reason()).toBeNull()
    came(0, ['list'], 700, true)
    expect(reason()).toContain('half')
  })
})
