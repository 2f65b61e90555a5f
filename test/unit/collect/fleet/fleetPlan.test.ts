import { expect, test } from 'vitest'
import { planFleet } from '../../../../src/collect/fleet/fleetPlan.js'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { watchesPerSecond } from '../../../../src/collect/streams/rates.js'
import { assumedUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { loadConfig } from '../../../../src/config/resolve.js'

const universe = assumedUniverse()
const everyBookEachSecond = () => {
  const config = loadConfig({ env: {} })
  config.streams.orderBooks.everySeconds = 1
  config.streams.orderBooks.select.busiest = Infinity
  return config
}

test('one address is planned for as before', () => {
  const config = loadConfig({ env: {} })
  expect(planFleet(config, universe, 1)).toMatchObject(planConfig(config, universe))
})

test('what does not fit one address fits as many as are said to be needed', () => {
  const config = everyBookEachSecond()
  const one = planFleet(config, universe, 1)
  expect(one.fits).toBe(false)
  // 1,459 instruments a second, 18.2 safe requests a second from each address.
  expect(one.egressesNeeded).toBeGreaterThan(1459 / 18.2)
  expect(planFleet(config, universe, one.egressesNeeded).fits).toBe(true)
  expect(planFleet(config, universe, Math.floor(1459 / 18.2)).fits).toBe(false)
})

test('what fits is more from more addresses, and nothing is counted twice', () => {
  const config = loadConfig({ env: {} })
  config.streams.orderBooks.everySeconds = 2
  const books = (egresses: number) => {
    const { streams, overall } = planFleet(config, universe, egresses)
    const demand = streams.find(({ stream }) => stream === 'order_books')
    return { covered: demand?.instruments ?? 0, leftOut: demand?.leftOut.limits ?? 0, safe: overall.safePerSecond }
  }
  const [one, eight, many] = [books(1), books(8), books(200)]
  expect(eight.covered).toBeGreaterThan(7.5 * one.covered)
  expect(eight.safe).toBeCloseTo(8 * one.safe)
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
  const needed = (watchSeconds: number) => planFleet(withWatch(watchSeconds), universe, 1).egressesNeeded
  expect(watchesPerSecond(withWatch(0))).toBe(0)
  expect(needed(0)).toBeLessThanOrEqual(needed(2))
  // However often, they take a tenth of the overall limit at most.
  expect(watchesPerSecond(withWatch(0.001))).toBeLessThanOrEqual(100 / 10)
})
