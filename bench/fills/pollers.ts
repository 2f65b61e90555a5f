import { worthOfTickers } from '../../src/collect/schedule/fillShare.js'
import { FillSchedule } from '../../src/collect/schedule/fillSchedule.js'
import { countUntil, type Flow } from './market.js'
import type { FillPoller, Truth } from './run.js'

interface Learned {
  isAsked: boolean
  respondedMs: number
  newestTs: number
  serviceTime: number
  /** Fills a millisecond. */
  rate: number
}

const rememberedMs = 60_000

function learn(entry: Learned, newestFirst: readonly { readonly ts: number }[], serviceTime: number, nowMs: number) {
  let fresh = 0
  while (fresh < newestFirst.length && (newestFirst[fresh]?.ts ?? 0) > entry.newestTs) fresh++
  const oldest = newestFirst.at(-1)?.ts ?? serviceTime
  const isFirst = entry.respondedMs === -1
  const spanMs = Math.max(1, serviceTime - (fresh === newestFirst.length ? oldest : entry.serviceTime))
  const weight = isFirst ? 1 : -Math.expm1(-(serviceTime - entry.serviceTime) / rememberedMs)
  entry.rate += (fresh / spanMs - entry.rate) * weight
  entry.newestTs = newestFirst[0]?.ts ?? entry.newestTs
  entry.serviceTime = serviceTime
  entry.respondedMs = nowMs
  entry.isAsked = false
}

/** Each as often as its learned rate says, and those without fills now and then. */
export function proportional({ flows }: Truth): FillPoller {
  const unknown = { isAsked: false, respondedMs: -1, newestTs: -Infinity, serviceTime: 0, rate: 0 }
  const entries = flows.map((): Learned => ({ ...unknown }))
  return {
    choose(nowMs) {
      const meanRate = entries.reduce((sum, { rate }) => sum + rate, 0) / entries.length
      const urgencyOf = ({ respondedMs, rate }: Learned) =>
        respondedMs === -1 ? Infinity : (nowMs - respondedMs) * (rate + meanRate * 0.05)
      let [best, highest] = [-1, -1]
      for (const [index, entry] of entries.entries()) {
        const urgency = entry.isAsked ? -1 : urgencyOf(entry)
        if (urgency > highest) [best, highest] = [index, urgency]
      }
      const chosen = entries[best]
      if (chosen !== undefined) chosen.isAsked = true
      return best
    },
    responded(instrument, newestFirst, serviceTime, nowMs) {
      learn(entries[instrument] as Learned, newestFirst, serviceTime, nowMs)
    },
  }
}

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
  const schedule = new FillSchedule<number>(String, { minPollMs: 50, maxPollMs: 600_000 })
  schedule.retarget([...Array(flows.length + failing).keys()], 0)
  return {
    choose: (nowMs) => schedule.choose(nowMs)?.target ?? -1,
    responded: (instrument, newestFirst, serviceTime, nowMs) =>
      schedule.responded(instrument, newestFirst, serviceTime, nowMs),
    failed: (instrument, nowMs) => schedule.failed(instrument, nowMs),
    tickers: (signOf) => void schedule.takeTickers((instrument) => signOf(instrument % flows.length)),
    isWorthLooking: (sinceMs) =>
      worthOfTickers(schedule.fillsPerSecond(), 1_000 / slotMs, () => schedule.flow(() => true) * sinceMs) >= 1,
  }
}
