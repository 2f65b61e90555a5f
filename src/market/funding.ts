import type { RowOf } from './stream.js'
import type { TimeRange } from './timeRange.js'
import { dayMs, hourMs, minuteMs, type ServiceMs, serviceMs } from './values.js'

/** A rate at which funding was settled, at the time `ts`. Its interval is found when it is stored. */
export type FundingRate = Omit<RowOf<'funding_rates'>, 'intervalHours'>

/** A settlement that is shown this close to a whole hour was settled on the hour. */
const jitterMs = minuteMs

/** Returns the time for which a settlement was scheduled. The service may give other milliseconds in each response. */
export function nominalSettlement(ts: ServiceMs): ServiceMs {
  const hour = serviceMs(Math.round(ts / hourMs) * hourMs)
  return Math.abs(ts - hour) <= jitterMs ? hour : ts
}

/** How far back the service gives settled rates, and the largest number in one response. */
export const fundingReachMs = 90 * dayMs
export const fundingPageRows = 100

/** The longest time from one settlement to the next. Instruments settle every one, two, four or eight hours. */
export const longestFundingMs = 8 * hourMs

/** The time from one known settlement to the next known one. */
interface FundingStep extends TimeRange {
  /** False if a settlement may be missing in between. Null for the newest step, if only the next settlement will tell. */
  readonly isWhole: boolean | null
}

/**
 * Tells where settlements are missing. The interval of an instrument changes at times. So a step counts as whole if it
 * is no longer than the one before or after it.
 *
 * @param times each settlement once, ascending
 */
export function fundingSteps(times: readonly ServiceMs[]): FundingStep[] {
  const lengthOf = (index: number) => (times[index] ?? Number.NaN) - (times[index - 1] ?? Number.NaN)
  return times.slice(1).map((to, place) => {
    const from = times[place] as ServiceMs
    const [before, length, after] = [lengthOf(place), to - from, lengthOf(place + 2)]
    if (length > longestFundingMs) return { from, to, isWhole: false }
    if (length <= before || length <= after) return { from, to, isWhole: true }
    return { from, to, isWhole: Number.isNaN(after) ? null : false }
  })
}

/** How far back the service gives liquidations, and the largest number in one response. */
export const liquidationReachMs = 3 * dayMs
export const liquidationPageRows = 100

/** Rows that leave a history within this time are not requested, because they would leave before their turn. */
const leavesWithinMs = hourMs

/** How far back rows are requested. The oldest settlement may be an interval younger; nothing proves what is below it. */
export const requestedReachMs = {
  funding_rates: fundingReachMs - longestFundingMs - leavesWithinMs,
  liquidations: liquidationReachMs - leavesWithinMs,
} as const

/**
 * A liquidated position. Liquidations have no id, so two equal rows are two liquidations, which are numbered when they
 * are stored. `side` is the service's word: it says `buy` if a long position was liquidated.
 */
export type Liquidation = Omit<RowOf<'liquidations'>, 'occurrence'>
