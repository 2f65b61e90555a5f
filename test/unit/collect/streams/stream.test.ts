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
    expect(one.isLasting('SPOT', 26_000)).toBe(true)
    expect(one.isLasting('MARGIN', 26_000)).toBe(false)
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
