import { expect, test } from 'vitest'
import { planFairShares } from '../../../src/collect/plan/plan.js'
import { withChunksOf } from '../../../src/collect/retention.js'
import { assumedUniverse } from '../../../src/collect/universe/planUniverse.js'
import { type Config, loadConfig, storageOf } from '../../../src/config/resolve.js'
import { listed } from '../../support/planUniverse.js'

const few = listed(...Array.from({ length: 5 }, (_, index) => ({ symbol: `S${index}` })))

function chunksOf(change: (config: Config) => void, universe = assumedUniverse()) {
  const config = loadConfig({ env: {} })
  change(config)
  const plan = planFairShares(config, universe, 1)
  const bytesPerDay = plan.streams.find(({ stream }) => stream === 'order_books')?.bytesPerDay ?? 0
  const storage = withChunksOf(plan, storageOf(config))
  return { hours: storage.order_books.chunkHours, bytesPerDay, storage }
}

test('a year of books of the assumed market is some hundred chunks, and few books make long ones', () => {
  const whole = chunksOf(() => undefined)
  const small = chunksOf(() => undefined, few)
  expect((365 * 24) / whole.hours).toBeLessThanOrEqual(365)
  expect((whole.bytesPerDay / 24) * whole.hours).toBeLessThanOrEqual(4e9)
  expect(small.hours).toBe(168)
})

test('the more bytes a day come, the shorter chunks are, and never more than 730 a year', () => {
  const depths = [1, 5, 20, 50, 100, 200].map((depth) =>
    chunksOf((config) => {
      config.streams.orderBooks.depth = depth
    }),
  )
  const hours = depths.map((one) => one.hours)
  expect(hours).toEqual(hours.toSorted((a, b) => b - a))
  expect(new Set(hours).size).toBeGreaterThan(1)
  for (const one of depths) expect([12, 24, 72, 168]).toContain(one.hours)
  const deepest = chunksOf((config) => {
    config.streams.orderBooks.depth = 1_000
  })
  expect(deepest.hours).toBe(12)
})

test('a chunk is no longer than rows are kept, and other tables stay as they are', () => {
  const { hours, storage } = chunksOf((config) => {
    config.storage.orderBooks.retentionDays = 2
  }, few)
  expect(hours).toBe(24)
  const { order_books: _, rpi_order_books: __, ...others } = storage
  expect(storageOf(loadConfig({ env: {} }))).toMatchObject(others)
})

test('a table of books that are not recorded stays as it is', () => {
  const { storage } = chunksOf((config) => {
    config.streams.orderBooks.enabled = false
  }, few)
  expect(storage.order_books.chunkHours).toBe(24)
})
