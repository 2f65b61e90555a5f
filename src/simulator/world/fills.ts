import type { CommonFactor } from './prices.js'
import { createEvenFills, type FillProcess, type FillRate } from './evenFills.js'
import { createMarketFills } from './marketFills.js'

/** Fills with the traits of a market when it is given what all its instruments have in common, otherwise even ones. */
export function createFillProcess(key: number, rate: FillRate, common: CommonFactor | null): FillProcess {
  return common === null || rate.burstiness === 0 ? createEvenFills(key, rate) : createMarketFills(key, rate, common)
}
