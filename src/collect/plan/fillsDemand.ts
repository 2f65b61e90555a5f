import { fillsPerPage } from '../../market/fill.js'
import { expectedFillsPerSecond, fillTurnoverFactor, type PlanInstrument } from '../universe/planUniverse.js'

/** How an instrument's fills are asked for. */
export interface FillsPolling {
  readonly minPollSeconds: number
  readonly maxPollSeconds: number
  /** Whether a ticker tells when nothing was traded. */
  readonly seesTrades: (instrument: PlanInstrument) => boolean
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

/** A poll is due when half of a page is new, and bursts make polls half as frequent again as the average says. */
const fillsPerRequest = fillsPerPage / 2 / 1.5

/** What it takes to record the fills of these instruments. */
export function fillsDemand(instruments: readonly PlanInstrument[], polling: FillsPolling): FillsDemand {
  const rates = instruments.map((instrument) => ({
    rate: expectedFillsPerSecond(instrument),
    isMeasured: instrument.measuredFillsPerSecond !== null,
    seesTrades: polling.seesTrades(instrument),
  }))
  const needed = (factor: number) =>
    rates.reduce((sum, { rate, isMeasured, seesTrades }) => {
      return sum + requestsPerSecond(isMeasured ? rate : rate * factor, seesTrades, polling)
    }, 0)
  return {
    neededPerSecond: needed(1),
    neededRange: { least: needed(1 / fillTurnoverFactor), most: needed(fillTurnoverFactor) },
    fillsPerDay: rates.reduce((sum, { rate }) => sum + rate, 0) * 86_400,
    measured: rates.filter(({ isMeasured }) => isMeasured).length,
  }
}

function requestsPerSecond(
  fillsPerSecond: number,
  seesTrades: boolean,
  { minPollSeconds, maxPollSeconds }: FillsPolling,
): number {
  const dueSeconds = Math.max(minPollSeconds, Math.min(maxPollSeconds, fillsPerRequest / fillsPerSecond))
  return 1 / (dueSeconds + (seesTrades ? idleSeconds(fillsPerSecond, dueSeconds) : 0))
}

/** How long an instrument goes unasked while its ticker shows no trade; after that it is asked all the same. */
const longestIdleSeconds = 3600

/** Seconds on average that a request which is due still waits for a trade, with trades at random times. */
function idleSeconds(fillsPerSecond: number, dueSeconds: number): number {
  if (fillsPerSecond === 0) return longestIdleSeconds
  const isStillIdle = Math.exp(-fillsPerSecond * dueSeconds)
  return (isStillIdle * (1 - Math.exp(-fillsPerSecond * longestIdleSeconds))) / fillsPerSecond
}
