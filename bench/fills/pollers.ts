import { fillsPerPage } from '../../src/market/rows.js'
import { worthOfTickers } from '../../src/collect/schedule/fillShare.js'
import { FillSchedule } from '../../src/collect/schedule/fillSchedule.js'
import { countUntil, type Flow } from './market.js'
import type { FillPoller, Truth } from './run.js'

/** One after the other. */
export function roundRobin({ flows }: Truth): FillPoller {
  let next = -1
  return {
    choose: () => (next = (next + 1) % flows.length),
    responded: () => undefined,
  }
}

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
 * Knows the present and the future. It chooses the instrument that would lose most until the next request can be sent,
 * or would lose first. It is no strict bound: where requests do not suffice by far, it does not plan what to give up.
 */
export function clairvoyant({ flows, latencyMs, slotMs, shownUpTo }: Truth): FillPoller {
  const pending = flows.map(() => 0)
  return {
    choose(nowMs) {
      const arrivesMs = nowMs + latencyMs / 2
      let first = -1
      let most = 0
      let soonest = Infinity
      for (let instrument = 0; instrument < flows.length; instrument++) {
        const { times } = flows[instrument] as Flow
        const happened = countUntil(times, arrivesMs)
        const more = countUntil(times, arrivesMs + slotMs) - happened
        const shown = Math.max(pending[instrument] as number, shownUpTo(instrument))
        const behind = Math.min(fillsPerPage, happened - shown)
        const averted = Math.max(0, behind + more - fillsPerPage) - Math.max(0, more - fillsPerPage)
        const losesAt = averted > 0 ? arrivesMs : (times[shown + fillsPerPage] ?? Infinity)
        if (averted > most || (averted === most && losesAt < soonest)) {
          first = instrument
          most = averted
          soonest = losesAt
        }
      }
      if (first !== -1) pending[first] = countUntil((flows[first] as Flow).times, arrivesMs)
      return first
    },
    responded: () => undefined,
  }
}

/**
 * Knows the present, but not the future. It chooses the instrument with the most fills that no response has shown, as
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

/** Length of the time over which the rate is averaged. */
const knownRateMs = 20_000

/**
 * Knows of every instrument how many fills there were until a second ago, and at which rate. It chooses the one with
 * the most that no response has shown. No ticker tells more: a schedule by tickers that foresees no bursts reaches this
 * at best.
 */
export function knowingLastSecond({ flows, latencyMs, shownUpTo }: Truth): FillPoller {
  const respondedMs = flows.map(() => -Infinity)
  const isAsked = flows.map(() => false)
  return {
    choose(nowMs) {
      let best = -1
      let most = -1
      for (const [instrument, { times }] of flows.entries()) {
        if (isAsked[instrument] === true) continue
        const knownMs = Math.max(nowMs - 1_000, (respondedMs[instrument] as number) - latencyMs / 2)
        const known = countUntil(times, knownMs)
        const perMs = (known - countUntil(times, knownMs - knownRateMs)) / knownRateMs
        const unseen = Math.max(0, known - shownUpTo(instrument)) + perMs * (nowMs + latencyMs / 2 - knownMs)
        if (unseen > most) [best, most] = [instrument, unseen]
      }
      if (best !== -1) isAsked[best] = true
      return best
    },
    responded(instrument, _newestFirst, _serviceTime, nowMs) {
      respondedMs[instrument] = nowMs
      isAsked[instrument] = false
    },
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
