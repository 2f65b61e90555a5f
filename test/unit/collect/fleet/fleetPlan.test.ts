import { expect, test } from 'vitest'
import { planFleet } from '../../../../src/collect/fleet/fleetPlan.js'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { assumedUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { loadConfig } from '../../../../src/config/load.js'

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
