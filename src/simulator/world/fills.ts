import type { CommonFactor } from './prices.js'
import { createEvenFills, type FillProcess, type FillRate } from './evenFills.js'
import { createMarketFills } from './marketFills.js'

/** Creates fills with the traits of a market if there is a common factor, otherwise even fills. */
export function createFillProcess(key: number, rate: FillRate, common: CommonFactor | null): FillProcess {
  return common === null || rate.burstiness === 0 ? createEvenFills(key, rate) : createMarketFills(key, rate, common)
}
