import { expect, test } from 'vitest'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { streams, tickerWatch, watchesPerSecond } from '../../../../src/collect/streams/streams.js'
import { assumedUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { type Config, loadConfig } from '../../../../src/config/resolve.js'

function watching(watchSeconds: number): Config {
  const config = loadConfig({ env: {} })
  config.streams.tickers.watchSeconds = watchSeconds
  return config
}

function tickersOf(config: Config) {
  const found = planConfig(config, assumedUniverse()).streams.find(({ stream }) => stream === 'tickers')
  if (!found) throw new Error('tickers are not planned')
  return found
}

test('looks between the tickers that are recorded count as requests and make no rows', () => {
  const [watched, recorded] = [tickersOf(watching(1)), tickersOf(watching(0))]
  expect(watched.requestsPerSecond - recorded.requestsPerSecond).toBeCloseTo(4)
  expect(watched.rowsPerDay).toBe(recorded.rowsPerDay)
})

test('looks never make a configuration one that does not fit', () => {
  const config = loadConfig({ env: {} })
  config.exchange.limits.perSecond.tickers = 1
  const { operations } = planConfig(config, assumedUniverse())
  expect(operations.tickers.requestsPerSecond).toBeLessThanOrEqual(operations.tickers.safePerSecond)
  // Four categories every five seconds.
  expect(tickersOf(config).requestsPerSecond).toBeCloseTo(0.8)
})

test('where the limits are low, looks are less frequent', () => {
  const config = watching(1)
  config.exchange.limits.overallPerMinute = 600
  expect(watchesPerSecond(config)).toBeCloseTo(1, 2)
  config.exchange.limits.overallPerMinute = 6_000
  config.exchange.limits.perSecond.tickers = 2
  expect(watchesPerSecond(config)).toBeLessThan(2 / 3)
  expect(tickerWatch(config).gapMs).toBeCloseTo(1000 / watchesPerSecond(config))
  // The default is too often for four categories, which share a third of 20 requests a second.
  expect(tickerWatch(loadConfig({ env: {} }))).toMatchObject({ minMs: 100, gapMs: expect.closeTo(165, 0) as number })
})

test('of a page with more candles than were asked for, the newest are taken, in their order', async () => {
  const rows = [7, 1, 3, 9, 5].map((openTime) => ({ openTime }))
  const client = { candles: () => Promise.resolve({ rows, requestTime: 10 }) }
  const target = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m', settleMs: 0 } as const
  const taken = async (limit: number) =>
    (await streams.candles.fetch(client as never, { ...target, limit }, {})).rows.map(({ openTime }) => openTime)
  expect(await taken(3)).toEqual([7, 9, 5])
  expect(await taken(5)).toEqual([7, 1, 3, 9, 5])
  expect(await taken(13)).toEqual([7, 1, 3, 9, 5])
})
