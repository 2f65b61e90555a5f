import { plannedFillsPerResponse } from '../schedule/fillShare.js'
import { shortestPollMs } from '../schedule/fillSchedule.js'
import { meanWaitMs } from '../schedule/fillWait.js'
import { expectedFillsPerSecond, fillTurnoverFactor, type PlanInstrument } from '../universe/planUniverse.js'

export interface FillsPolling {
  readonly maxPollSeconds: number
}

export interface FillsDemand {
  /** Requests per second that lose next to nothing. */
  readonly neededPerSecond: number
  /** Bounds of `neededPerSecond`, by the uncertainty of the rates that are computed from turnover. */
  readonly neededRange: { readonly least: number; readonly most: number }
  readonly fillsPerDay: number
  /** Number of instruments whose rate was recorded. The others' rates are computed from turnover. */
  readonly measured: number
}

/** Requests and rows that recording the fills of these instruments takes. */
export function fillsDemand(instruments: readonly PlanInstrument[], polling: FillsPolling): FillsDemand {
  const rates = instruments.map((instrument) => ({
    rate: expectedFillsPerSecond(instrument),
    isMeasured: instrument.measuredFillsPerSecond !== null,
  }))
  const needed = (factor: number) =>
    rates.reduce((sum, { rate, isMeasured }) => sum + requestsPerSecond(isMeasured ? rate : rate * factor, polling), 0)
  return {
    neededPerSecond: needed(1),
    neededRange: { least: needed(1 / fillTurnoverFactor), most: needed(fillTurnoverFactor) },
    fillsPerDay: rates.reduce((sum, { rate }) => sum + rate, 0) * 86_400,
    measured: rates.filter(({ isMeasured }) => isMeasured).length,
  }
}

/** Requests per second for the fills of one instrument. */
export function fillRequestsPerSecond(instrument: PlanInstrument, polling: FillsPolling): number {
  return requestsPerSecond(expectedFillsPerSecond(instrument), polling)
}

/** Follows the schedule: a request is sent when a response is worth it, or after the mean longest wait. */
function requestsPerSecond(fillsPerSecond: number, { maxPollSeconds }: FillsPolling): number {
  const waitSeconds = meanWaitMs(fillsPerSecond / 1000, maxPollSeconds * 1000) / 1000
  return 1 / Math.max(shortestPollMs / 1000, Math.min(plannedFillsPerResponse / fillsPerSecond, waitSeconds))
}
