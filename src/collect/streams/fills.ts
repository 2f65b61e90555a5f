import type { InstrumentKey } from '../../market/category.js'
import { type Fill, fillsPerPage } from '../../market/rows.js'
import { meanWaitMs, plannedFillsPerResponse } from '../schedule/fillShare.js'
import { shortestPollMs } from '../schedule/fillSchedule.js'
import { expectedFillsPerSecond, fillTurnoverFactor, type PlanInstrument } from '../universe/planUniverse.js'
import { safeRates } from './rates.js'
import { type InstrumentStream, secondsPerDay } from './stream.js'

export const fills: InstrumentStream<InstrumentKey, Fill> = {
  kind: 'instruments',
  name: 'fills',
  trigger: (config) => ({
    kind: 'overlap',
    minPollMs: shortestPollMs,
    maxPollMs: config.streams.fills.maxPollSeconds * 1000,
    allowedPerSecond: safeRates(config).perSecond.fills,
  }),
  select: ({ streams }) => streams.fills.select,
  targetsOf: (_config, keys) => keys.map(({ category, symbol }) => ({ category, symbol })),
  fetch: (client, { category, symbol }, options) => client.fills({ category, symbol }, options),
  costOf:
    ({ streams }) =>
    (instrument) =>
      requestsPerSecond(expectedFillsPerSecond(instrument), streams.fills),
  rowsPerDayOf: () => (instrument) => expectedFillsPerSecond(instrument) * secondsPerDay,
  // Compressed bytes were measured on TimescaleDB 2.29, plain bytes on PostgreSQL 18 with data of the simulator.
  bytes: () => ({ plain: 232, compressed: 52 }),
  sharesRequests: fillsPerPage,
}

/** Bounds of the time between two requests for an instrument's fills. */
interface FillsPolling {
  readonly maxPollSeconds: number
}

interface FillsDemand {
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
    fillsPerDay: rates.reduce((sum, { rate }) => sum + rate, 0) * secondsPerDay,
    measured: rates.filter(({ isMeasured }) => isMeasured).length,
  }
}

/** Follows the schedule: a request is sent when a response is worth it, or after the mean longest wait. */
function requestsPerSecond(fillsPerSecond: number, { maxPollSeconds }: FillsPolling): number {
  const waitSeconds = meanWaitMs(fillsPerSecond / 1000, maxPollSeconds * 1000) / 1000
  return 1 / Math.max(shortestPollMs / 1000, Math.min(plannedFillsPerResponse / fillsPerSecond, waitSeconds))
}
