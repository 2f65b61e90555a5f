import { expect, test } from 'vitest'
import { Fleet } from '../../../../src/collect/fleet/fleet.js'
import { resolveConfig } from '../../../../src/config/resolve.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { systemDisk } from '../../../../src/runtime/disk.js'
import { createLogger } from '../../../../src/runtime/logger.js'

function digestOf(streams: object): string {
  return new Fleet({
    config: resolveConfig({}, { value: { streams }, place: String }),
    egress: 'a',
    clock: systemClock,
    logger: createLogger('silent'),
    disk: systemDisk,
    file: 'fleet.json',
    universe: () => ({ kind: 'listed', instruments: [] }),
    onChange: () => undefined,
    isReady: () => true,
    pausedMs: () => 0,
  }).streamsDigest
}

test('recorders share the work if they record the same, in whatever order their lists name it', () => {
  const select = { categories: ['SPOT', 'USDT-FUTURES'], symbols: ['BTC*', 'ETH*'], busiest: 'all' }
  const digest = digestOf({ fills: { select }, candles: { intervals: ['1m', '1H'] } })
  const reversed = { busiest: 'all', symbols: ['ETH*', 'BTC*', 'ETH*'], categories: ['USDT-FUTURES', 'SPOT'] }
  expect(digestOf({ candles: { intervals: ['1H', '1m'] }, fills: { select: reversed } })).toBe(digest)
  for (const other of [{ symbols: ['BTC*'] }, { busiest: 10 }, { symbols: ['*'], exclude: ['BTC*', 'ETH*'] }])
    expect(digestOf({ fills: { select: { ...select, ...other } }, candles: { intervals: ['1m', '1H'] } })).not.toBe(
      digest,
    )
})
