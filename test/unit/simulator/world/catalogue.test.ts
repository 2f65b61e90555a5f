import { expect, test } from 'vitest'
import { createCatalogue, defaultActivity } from '../../../../src/simulator/world/catalogue.js'

test.each([1, 2, 3])('a coin costs the same on spot and futures, give or take a tick (seed %i)', (seed) => {
  const { listings } = createCatalogue(seed, 'small', defaultActivity, undefined)
  const spot = new Map(listings.filter(({ category }) => category === 'SPOT').map((one) => [one.baseCoin, one]))
  const price = ({ basePriceTicks, priceDecimals }: (typeof listings)[number]) => basePriceTicks / 10 ** priceDecimals
  const pairs = listings.flatMap((future) => {
    const twin = spot.get(future.baseCoin)
    return twin && future.category.endsWith('FUTURES') ? [price(future) / price(twin)] : []
  })
  expect(pairs.length).toBeGreaterThan(15)
  for (const ratio of pairs) expect(ratio).toBeCloseTo(1, 3)
})
