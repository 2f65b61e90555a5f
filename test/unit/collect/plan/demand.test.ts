import { expect, test } from 'vitest'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { loadConfig } from '../../../../src/config/resolve.js'
import { instrumentKinds } from '../../../../src/market/instrument.js'
import { listed } from '../../../support/planUniverse.js'

test('of tokenised stocks the candles that they have are planned alone', () => {
  const config = structuredClone(loadConfig({ env: {} }))
  const { candles } = config.streams
  Object.assign(candles, {
    types: ['market', 'mark'],
    intervals: ['1m', '3m'],
    select: { ...candles.select, kinds: [...instrumentKinds], busiest: Infinity },
  })
  const demandOf = (kind: 'crypto' | 'tokenised_stock') => {
    const { streams } = planConfig(config, listed({ kind, measuredFillsPerSecond: 1_000 }))
    return streams.find(({ stream }) => stream === 'candles')
  }
  expect(demandOf('crypto')?.requestsPerSecond).toBeCloseTo(2 / 60 + 2 / 180, 9)
  expect(demandOf('crypto')?.rowsPerDay).toBeCloseTo(2 * 1440 + 2 * 480, 6)
  expect(demandOf('tokenised_stock')?.requestsPerSecond).toBeCloseTo(1 / 60, 9)
  expect(demandOf('tokenised_stock')?.rowsPerDay).toBeCloseTo(1440, 6)
})
