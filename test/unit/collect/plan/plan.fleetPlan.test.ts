import { expect, test } from 'vitest'
import { ownershipOf, Rendezvous } from '../../../../src/collect/fleet/rendezvous.js'
import { addressesNeeded, planConfig, planFairShares, planFleet } from '../../../../src/collect/plan/plan.js'
import { watchesPerSecond } from '../../../../src/collect/streams/streams.js'
import { assumedUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { loadConfig } from '../../../../src/config/resolve.js'
import { listed } from '../../../support/planUniverse.js'

const universe = assumedUniverse()
const everyBookEachSecond = () => {
  const config = loadConfig({ env: {} })
  config.streams.orderBooks.everySeconds = 1
  config.streams.orderBooks.select.busiest = Infinity
  return config
}

test('one address is planned for as before', () => {
  const config = loadConfig({ env: {} })
  expect(planFleet(config, universe, 1)).toEqual(planConfig(config, universe))
})

test('what does not fit one address fits as many as are said to be needed', () => {
  const config = everyBookEachSecond()
  expect(planFleet(config, universe, 1).fits).toBe(false)
  const needed = addressesNeeded(config, universe)
  // 1,459 instruments a second, 18.2 safe requests a second from each address.
  expect(needed).toBeGreaterThan(1459 / 18.2)
  expect(planFleet(config, universe, needed).fits).toBe(true)
  expect(planFleet(config, universe, needed - 1).fits).toBe(false)
})

test('fair shares of two addresses fit demands that chance may not distribute evenly', () => {
  const config = loadConfig({ env: {} })
  for (const [name, stream] of Object.entries(config.streams)) stream.enabled = name === 'orderBooks'
  config.streams.orderBooks.everySeconds = 10
  config.streams.orderBooks.select.busiest = Infinity
  // 32 requests a second, of 36.4 that are safe.
  const market = listed(...Array.from({ length: 320 }, (_, index) => ({ symbol: `S${index}` })))
  expect(planFairShares(config, market, 1).fits).toBe(false)
  expect(planFairShares(config, market, 2).fits).toBe(true)
  expect(planFleet(config, market, 2).fits).toBe(false)
})

test('the addresses needed suffice for each of them, however chance shares the instruments', () => {
  const config = loadConfig({ env: {} })
  config.streams.orderBooks.everySeconds = 4
  config.streams.orderBooks.select.busiest = 'fit'
  const count = addressesNeeded(config, universe)
  expect(count).toBeGreaterThan(1459 / 4 / 18.2)
  const members = Array.from({ length: count }, (_, index) => ({ egress: `egress ${index + 1}`, weight: 1 }))
  const rendezvous = new Rendezvous(members)
  for (const { egress } of members) {
    const own = planConfig(config, { ...universe, ownership: ownershipOf(egress, rendezvous) })
    expect(own.streams.every(({ leftOut }) => leftOut.limits === 0)).toBe(true)
  }
})

test('where the limits leave candles out, more addresses are needed', () => {
  const config = loadConfig({ env: {} })
  for (const [name, stream] of Object.entries(config.streams)) stream.enabled = name === 'candles'
  Object.assign(config.streams.candles, { intervals: ['1m'], types: ['mark'] })
  // 15 requests a second: between three quarters and nine tenths of the 18.2 that are safe.
  const symbols = Array.from({ length: 900 }, (_, index) => ({ symbol: `S${index}` }))
  const leftOut = (addresses: number) => planFleet(config, listed(...symbols), addresses).streams[0]?.leftOut.limits
  expect(leftOut(1)).toBeGreaterThan(0)
  expect(addressesNeeded(config, listed(...symbols))).toBe(2)
  expect(leftOut(2)).toBe(0)
})

test('more addresses cover more, and nothing is counted twice', () => {
  const config = loadConfig({ env: {} })
  config.streams.orderBooks.everySeconds = 2
  const books = (egresses: number) => {
    const { streams } = planFleet(config, universe, egresses)
    const demand = streams.find(({ stream }) => stream === 'order_books')
    return { covered: demand?.instruments ?? 0, leftOut: demand?.leftOut.limits ?? 0 }
  }
  const [one, eight, many] = [books(1), books(8), books(200)]
  // By chance the busiest of eight has up to a quarter more than its fair share of 1,459 books.
  expect(eight.covered).toBeGreaterThan((8 / 1.25) * one.covered)
  expect(eight.covered).toBeLessThanOrEqual(8 * one.covered)
  expect(eight.covered + eight.leftOut).toBe(one.covered + one.leftOut)
  expect(many.leftOut).toBe(0)
})

test('looks at tickers are planned for where they can be made: none without them, and at most so many for each address', () => {
  const withWatch = (watchSeconds: number) => {
    const config = loadConfig({ env: {} })
    config.streams.tickers.watchSeconds = watchSeconds
    return config
  }
  const tickersOf = (watchSeconds: number, egresses: number) => {
    const { streams } = planFleet(withWatch(watchSeconds), universe, egresses)
    return streams.find(({ stream }) => stream === 'tickers')?.requestsPerSecond ?? 0
  }
  for (const egresses of [1, 8]) {
    // Four categories every five seconds, whoever records them.
    expect(tickersOf(0, egresses)).toBeCloseTo(0.8)
    expect(tickersOf(2, egresses)).toBeCloseTo(0.8 + egresses * watchesPerSecond(withWatch(2)))
  }
  const needed = (watchSeconds: number) => addressesNeeded(withWatch(watchSeconds), universe)
  expect(watchesPerSecond(withWatch(0))).toBe(0)
  expect(needed(0)).toBeLessThanOrEqual(needed(2))
  // However often, they take a tenth of the overall limit at most.
  expect(watchesPerSecond(withWatch(0.001))).toBeLessThanOrEqual(100 / 10)
})
