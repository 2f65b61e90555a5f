import { worthOfTickers } from '../../src/collect/schedule/fillShare.js'
import { FillSchedule } from '../../src/collect/schedule/fillSchedule.js'
import { countUntil, type Flow } from './market.js'
import type { FillPoller, Truth } from './run.js'

/**
 * Knows the present. It chooses the instrument with the most fills that no response has shown, as
 * the recorder's schedule would do if its estimates were exact. The distance to it is the cost of not knowing.
 */
export function knowingPresent({ flows, latencyMs, shownUpTo }: Truth): FillPoller {
  const pending = flows.map(() => 0)
  return {
    choose(nowMs) {
      let best = -1
      let most = -1
      for (let instrument = 0; instrument < flows.length; instrument++) {
        const { times } = flows[instrument] as Flow
        const shown = Math.max(pending[instrument] as number, shownUpTo(instrument))
        const behind = Math.min(1000, countUntil(times, nowMs) - shown)
        if (behind > most) {
          most = behind
          best = instrument
        }
      }
      pending[best] = countUntil((flows[best] as Flow).times, nowMs + latencyMs / 2)
      return best
    },
    responded: () => undefined,
  }
}

/** The recorder's own schedule. @param failing number of further instruments that always fail and whose tickers look busy */
export function recorder({ flows, slotMs }: Truth, failing = 0): FillPoller {
  const schedule = new FillSchedule<number>(String, { groupOf: () => '', minPollMs: 50, maxPollMs: 600_000 })
  schedule.retarget([...Array(flows.length + failing).keys()], 0)
  return {
    choose: (nowMs) => schedule.choose(nowMs)?.target ?? -1,
    responded: (instrument, newestFirst, serviceTime, nowMs) =>
      schedule.responded(instrument, newestFirst, serviceTime, nowMs),
    failed: (instrument, nowMs) => schedule.failed(instrument, nowMs),
    tickers: (signOf, nowMs) => void schedule.takeTickers((instrument) => signOf(instrument % flows.length), nowMs),
    isWorthLooking: (sinceMs) =>
      worthOfTickers(schedule.fillsPerSecond(), 1_000 / slotMs, () => schedule.flow(() => true) * sinceMs) >= 1,
  }
}
