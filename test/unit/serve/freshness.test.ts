import { describe, expect, test } from 'vitest'
import { createStats } from '../../../src/collect/streams/stream.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { freshnessLimits, freshnessOf } from '../../../src/serve/freshness.js'

test('a stream may be two of its periods old', () => {
  const limits = freshnessLimits(loadConfig({ env: {} }))
  expect(limits.tickers).toBe(2 * 5_000 + 30_000)
  expect(limits.candles).toBe(2 * (60_000 + 5_000) + 30_000)
})

test('a stream that is switched off has no limit', () => {
  const config = loadConfig({ env: {} })
  config.streams.fills.enabled = false
  expect(freshnessLimits(config).fills).toBeNull()
})

describe('the freshness of a stream', () => {
  const times = { now: 1_000_000, startedAt: 900_000, isCollecting: true, isFailing: false, isByDisk: false }
  const byDisk = { ...times, isByDisk: true }
  const stats = (changes: object) => ({ ...createStats().fills, targets: 3, ...changes })
  test.each([
    ['off when it is not configured', stats({}), null, times, 'off'],
    ['off even when its requests failed', stats({}), null, { ...times, isFailing: true }, 'off'],
    ['failing whatever it stored', stats({ lastStoredAt: 999_000 }), 50_000, { ...times, isFailing: true }, 'failing'],
    ['failing with nothing to cover', stats({ targets: 0 }), 50_000, { ...times, isFailing: true }, 'failing'],
    ['idle when it has nothing to cover', stats({ targets: 0 }), 50_000, times, 'idle'],
    ['starting before the first answer', stats({}), 200_000, times, 'starting'],
    ['stale when the first answer is late', stats({}), 50_000, times, 'stale'],
    ['fresh at its limit', stats({ lastStoredAt: 950_000 }), 50_000, times, 'fresh'],
    [
      'fresh while one of ten is late',
      stats({ lastStoredAt: 999_000, targets: 10, lateTargets: 1 }),
      50_000,
      times,
      'fresh',
    ],
    [
      'stale when many are late, however new its newest row',
      stats({ lastStoredAt: 999_000, targets: 10, lateTargets: 2 }),
      50_000,
      times,
      'stale',
    ],
    ['stale beyond its limit', stats({ lastStoredAt: 949_999 }), 50_000, times, 'stale'],
    ['fresh by way of the disk', stats({ lastStoredAt: 1, responses: 9 }), 50_000, byDisk, 'fresh'],
    ['stale by way of the disk without a response', stats({}), 50_000, byDisk, 'stale'],
    ['stale by way of the disk when many are late', stats({ responses: 9, lateTargets: 2 }), 50_000, byDisk, 'stale'],
    ['fresh when nothing was to be asked for', stats({ lastStoredAt: 1, lastIdleAt: 990_000 }), 50_000, times, 'fresh'],
    [
      'starting while the lists are read',
      stats({ targets: 0 }),
      200_000,
      { ...times, isCollecting: false },
      'starting',
    ],
  ] as const)('%s', (_name, given, limitMs, at, expected) => {
    expect(freshnessOf(given, limitMs, at)).toBe(expected)
  })
})
