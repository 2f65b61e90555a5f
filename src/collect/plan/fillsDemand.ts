import { plannedFillsPerResponse } from '../schedule/fillShare.js'
import { meanWaitMs } from '../schedule/fillWait.js'
import { expectedFillsPerSecond, fillTurnoverFactor, type PlanInstrument } from '../universe/planUniverse.js'

/** How an instrument's fills are asked for. */
export interface FillsPolling {
  readonly minPollSeconds: number
  readonly maxPollSeconds: number
}

export interface FillsDemand {
  /** Requests a second that lose next to nothing. */
  readonly neededPerSecond: number
  /** The same if the rates that come from turnover are too low or too high by the factor that they are uncertain by. */
  readonly neededRange: { readonly least: number; readonly most: number }
  readonly fillsPerDay: number
  /** For how many instruments the rate is a recorded one, not one that is computed from turnover. */
  readonly measured: number
}

/** What it takes to record the fills of these instruments. */
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

/** What the fills of one instrument take. */
export function fillRequestsPerSecond(instrument: PlanInstrument, polling: FillsPolling): number {
  return requestsPerSecond(expectedFillsPerSecond(instrument), polling)
}

/** As the schedule asks: when a response is worth it, and otherwise by how long an instrument may go unasked. */
function requestsPerSecond(fillsPerSecond: number, { minPollSeconds, maxPollSeconds }: FillsPolling): number {
  const waitSeconds = meanWaitMs(fillsPerSecond / 1000, maxPollSeconds * 1000) / 1000
  return 1 / Math.max(minPollSeconds, Math.min(plannedFillsPerResponse / fillsPerSecond, waitSeconds))
}
