import { fillPageRows } from '../../src/history/pastFills.js'
import { fillsPerPage, type TradeSign } from '../../src/market/rows.js'
import { minuteMs, minuteOf } from '../../src/market/values.js'
import type { SeenFill } from '../../src/collect/schedule/fillEstimate.js'
import { Pacer } from '../../src/exchange/limits/pacer.js'
import { type Operation, operations } from '../../src/market/operation.js'
import { tickerWatch } from '../../src/collect/streams/streams.js'
import { loadConfig } from '../../src/config/resolve.js'
import { countUntil, createRandom, type FillMarket, type Flow } from './market.js'
import { createLogger } from '../../src/runtime/logger.js'
import { createFakeClock } from '../../test/support/fakeClock.js'
import { TestRight } from '../../test/support/rights.js'

/** 20 requests a second allowed make 18.2 that can depart. */
const jitterMs = 80
const latencyMs = 40
/** Interval of recorded tickers. Pollers may look at tickers in between. */
const recordedTickersMs = 5_000
const usualConfig = loadConfig({ env: {} })
export const usualWatchMs = usualConfig.streams.tickers.watchSeconds * 1_000
const { gapMs: lookGapMs } = tickerWatch(usualConfig)
const [minTickerLagMs, maxTickerLagMs] = [500, 1_700]
const serviceStart = Date.UTC(2026, 0, 5, 12)

/**
 * Decides which instrument is asked for next. Times are milliseconds since the start. Those of fills and tickers are the
 * service's.
 */
export interface FillPoller {
  /** Called when a request may depart; -1 when it shall not. */
  choose(nowMs: number): number
  responded(instrument: number, newestFirst: readonly SeenFill[], serviceTime: number, nowMs: number): void
  /** Called when the request for an instrument beyond those of the market has failed. All of its requests do. */
  failed?(instrument: number, nowMs: number): void
  tickers?(signOf: (instrument: number) => TradeSign, nowMs: number): void
  /** Returns true if it would read tickers now, `sinceMs` after the newest ones came. */
  isWorthLooking?(sinceMs: number): boolean
}

export interface RunResult {
  readonly total: number
  /** Fills that live responses showed. */
  readonly captured: number
  /** Fills that are stored when the gaps of the run are filled from the history. */
  readonly whole: number
  /** Requests for the history a second. */
  readonly historyPerSecond: number
  /** Time from a fill to the response that brought it, live or from the history. */
  readonly delay: { readonly medianMs: number; readonly p99Ms: number }
  readonly gaps: number
  /** Requests. */
  readonly perSecond: number
  /** At tickers beyond those that are recorded. */
  readonly looksPerSecond: number
  readonly staleness: { readonly medianMs: number; readonly p95Ms: number }
  /** Until the last of the instruments had been answered; infinite when one never was. */
  readonly firstMs: number
}

/** The truth about a market, which only pollers that are bounds look at. */
export interface Truth {
  readonly flows: readonly Flow[]
  readonly latencyMs: number
  readonly slotMs: number
  /** The index after the newest fill shown so far. */
  readonly shownUpTo: (instrument: number) => number
}

/** Fills between two responses that neither of them showed. */
interface Gap {
  readonly instrument: number
  /** Index of its first fill, and the index after its last one. */
  readonly from: number
  readonly to: number
}

/** Interval of the search for gaps. A gap is filled as soon as its last minute is over and settled. */
const [lookForGapsMs, settledMs] = [10_000, 20_000]
/** Time after the end in which the last gaps are filled. */
const afterwardsMs = 300_000

/** Lets a poller capture a market through the recorder's pacer, on a clock of its own. */
export async function runPoller(
  market: FillMarket,
  limit: number,
  createPoller: (truth: Truth) => FillPoller,
  watchMs: number = usualWatchMs,
): Promise<RunResult> {
  const { flows, durationMs } = market
  const clock = createFakeClock(() => 0, 0)
  const limits = Object.fromEntries(operations.map((name) => [name, limit])) as Record<Operation, number>
  const pacer = new Pacer({
    limits: { overallPerMinute: 6_000, perSecond: { ...limits, 'futures-fills-history': limit / 2 } },
    latencyJitterMs: jitterMs,
    maxInFlight: Infinity,
    right: new TestRight(),
    clock,
    logger: createLogger('silent'),
  })
  const begins = flows.map(({ times }) => countUntil(times, 0))
  const next = [...begins]
  const respondedMs = flows.map(() => -1)
  const random = createRandom(99)
  const staleness: number[] = []
  const delays: number[] = []
  let open: Gap[] = []
  let [captured, whole, gaps, requests, historyRequests] = [0, 0, 0, 0, 0]
  let looks = 0
  let firstMs = 0
  const slotMs = (1_000 + jitterMs + 17) / limit
  const poller = createPoller({
    flows,
    latencyMs,
    slotMs,
    shownUpTo: (instrument) => next[instrument] as number,
  })

  const ask = async (instrument: number) => {
    await clock.sleep(latencyMs / 2)
    if (clock.monotonicMs() > durationMs) return
    requests++
    if (instrument >= flows.length) {
      await clock.sleep(latencyMs / 2)
      poller.failed?.(instrument, clock.monotonicMs())
      return
    }
    const { times, sizes } = flows[instrument] as Flow
    const serviceMs = clock.monotonicMs()
    const happened = countUntil(times, serviceMs)
    const from = Math.max(0, happened - fillsPerPage)
    const shown = next[instrument] as number
    const fresh = Math.max(from, Math.min(happened, shown))
    captured += happened - fresh
    if (from > shown) {
      gaps++
      open.push({ instrument, from: shown, to: from })
    }
    next[instrument] = Math.max(shown, happened)
    const page: SeenFill[] = []
    for (let index = happened - 1; index >= from; index--)
      page.push({ ts: serviceStart + (times[index] as number), size: String(sizes[index]) })
    await clock.sleep(latencyMs / 2)
    if (respondedMs[instrument] === -1) firstMs = clock.monotonicMs()
    respondedMs[instrument] = clock.monotonicMs()
    for (let index = fresh; index < happened; index++) delays.push(clock.monotonicMs() - (times[index] as number))
    poller.responded(instrument, page, serviceStart + serviceMs, clock.monotonicMs())
  }
  const requestLoop = async () => {
    while (clock.monotonicMs() < durationMs) {
      const departure = await pacer.acquire('fills', { deadline: clock.monotonicMs() })
      let instrument = poller.choose(clock.monotonicMs())
      for (; instrument === -1; instrument = poller.choose(clock.monotonicMs())) await clock.sleep(20)
      void ask(instrument).then(() => pacer.settle(departure, { outcome: 'response' }))
    }
  }
  const tickerLoop = async () => {
    // 0: none but the recorded ones.
    const everyMs = watchMs === 0 ? recordedTickersMs : Math.min(lookGapMs, recordedTickersMs)
    let cameMs = -Infinity
    for (let recordedMs = 0; clock.monotonicMs() < durationMs; await clock.sleep(everyMs)) {
      const nowMs = clock.monotonicMs()
      const areRecorded = nowMs >= recordedMs
      if (areRecorded) recordedMs += recordedTickersMs
      const sinceMs = nowMs - cameMs
      const isLooking = areRecorded || (sinceMs >= watchMs && poller.isWorthLooking?.(sinceMs) === true)
      if (isLooking) cameMs = nowMs
      if (isLooking && !areRecorded) looks++
      const lagMs = minTickerLagMs + (maxTickerLagMs - minTickerLagMs) * random()
      if (nowMs >= 60_000 && areRecorded) for (const atMs of respondedMs) staleness.push(nowMs - atMs)
      if (!isLooking) continue
      poller.tickers?.((instrument) => {
        const sign = market.ticker(instrument, Math.floor(nowMs - lagMs))
        return { ...sign, ts: serviceStart + sign.ts }
      }, nowMs)
    }
  }
  const fill = async ({ instrument, from, to }: Gap) => {
    const { times } = flows[instrument] as Flow
    // Pages reach one fill beyond both ends, because the gap is filled only where they join what is stored.
    for (let left = to - from + 2; left > 0; left -= fillPageRows - 1) {
      const departure = await pacer.acquire('futures-fills-history', { priority: 'repair' })
      historyRequests++
      await clock.sleep(latencyMs)
      pacer.settle(departure, { outcome: 'response' })
    }
    whole += to - from
    for (let index = from; index < to; index++) delays.push(clock.monotonicMs() - (times[index] as number))
  }
  const repairLoop = async () => {
    for (; clock.monotonicMs() < durationMs + afterwardsMs; await clock.sleep(lookForGapsMs)) {
      const isDue = ({ instrument, to }: Gap) => {
        const last = (flows[instrument] as Flow).times[to - 1] as number
        return minuteOf(last) + minuteMs + settledMs <= clock.monotonicMs()
      }
      const due = open.filter(isDue)
      open = open.filter((gap) => !isDue(gap))
      for (const gap of due) void fill(gap)
    }
  }
  void tickerLoop()
  void requestLoop()
  void repairLoop()
  await clock.advance(durationMs)
  let total = 0
  for (const [instrument, { times }] of flows.entries()) {
    const end = countUntil(times, durationMs)
    const shown = next[instrument] as number
    total += end - (begins[instrument] as number)
    // The next page would show the newest of them. Those before that are a gap.
    const kept = Math.min(fillsPerPage, end - shown)
    captured += kept
    if (end - kept > shown) open.push({ instrument, from: shown, to: end - kept })
  }
  await clock.advance(afterwardsMs)
  for (const sorted of [staleness, delays]) sorted.sort((a, b) => a - b)
  const at = (share: number, sorted = staleness) => sorted[Math.floor(sorted.length * share)] ?? 0
  return {
    total,
    captured,
    whole: captured + whole,
    historyPerSecond: (historyRequests / durationMs) * 1000,
    delay: { medianMs: at(0.5, delays), p99Ms: at(0.99, delays) },
    gaps,
    perSecond: (requests / durationMs) * 1000,
    looksPerSecond: (looks / durationMs) * 1000,
    staleness: { medianMs: at(0.5), p95Ms: at(0.95) },
    firstMs: respondedMs.includes(-1) ? Infinity : firstMs,
  }
}
