import { fillsPerPage, type TradeSign } from '../../src/market/rows.js'
import type { SeenFill } from '../../src/collect/schedule/fillEstimate.js'
import { Pacer } from '../../src/exchange/limits/pacer.js'
import { type Operation, operations } from '../../src/market/stream.js'
import { tickerWatch } from '../../src/collect/streams/rates.js'
import { loadConfig } from '../../src/config/resolve.js'
import { createVirtualClock } from '../virtualClock.js'
import { countUntil, type FillMarket, type Flow } from './market.js'
import { createRandom } from './random.js'
import { createLogger } from '../../src/runtime/logger.js'

/** 20 requests a second allowed make 18.2 that can depart. */
const jitterMs = 80
const latencyMs = 40
/** Tickers are recorded so often, and looked at between that by whoever wants to. */
const recordedTickersMs = 5_000
/** What the recorder does by default. */
const usualConfig = loadConfig({ env: {} })
export const usualWatchMs = usualConfig.streams.tickers.watchSeconds * 1_000
const { gapMs: lookGapMs } = tickerWatch(usualConfig)
const [minTickerLagMs, maxTickerLagMs] = [500, 1_700]
const serviceStart = Date.UTC(2026, 0, 5, 12)

/** Decides who is asked. All times are milliseconds since the start, but those of fills and tickers, which are the service's. */
export interface FillPoller {
  /** Called when a request may depart; -1 when it shall not. */
  choose(nowMs: number): number
  responded(instrument: number, newestFirst: readonly SeenFill[], serviceTime: number, nowMs: number): void
  tickers?(signOf: (instrument: number) => TradeSign): void
  /** Whether it looks at tickers between those that are recorded, so long after the newest ones came. */
  isWorthLooking?(sinceMs: number): boolean
}

export interface RunResult {
  readonly total: number
  readonly captured: number
  readonly gaps: number
  /** Requests. */
  readonly perSecond: number
  /** At tickers beyond those that are recorded. */
  readonly looksPerSecond: number
  readonly staleness: { readonly medianMs: number; readonly p95Ms: number }
  /** Until the last of the instruments had been answered; infinite when one never was. */
  readonly firstMs: number
}

/** What a poller may know beyond what it is told: only the bound does. */
export interface Truth {
  readonly flows: readonly Flow[]
  readonly latencyMs: number
  readonly slotMs: number
  /** What the service's clock shows when the bench begins. */
  readonly startsAt: number
  /** The index after the newest fill shown so far. */
  readonly shownUpTo: (instrument: number) => number
}

/** Lets a poller capture a market through the recorder's pacer, on a clock of its own. */
export async function runPoller(
  market: FillMarket,
  limit: number,
  createPoller: (truth: Truth) => FillPoller,
  watchMs: number = usualWatchMs,
): Promise<RunResult> {
  const { flows, durationMs } = market
  const clock = createVirtualClock(serviceStart)
  const limits = Object.fromEntries(operations.map((name) => [name, limit])) as Record<Operation, number>
  const pacer = new Pacer({
    limits: { overallPerMinute: 6_000, perSecond: limits },
    latencyJitterMs: jitterMs,
    clock,
    logger: createLogger('silent'),
  })
  const begins = flows.map(({ times }) => countUntil(times, 0))
  const next = [...begins]
  const respondedMs = flows.map(() => -1)
  const random = createRandom(99)
  const staleness: number[] = []
  let captured = 0
  let gaps = 0
  let requests = 0
  let looks = 0
  let firstMs = 0
  const slotMs = (1_000 + jitterMs + 17) / limit
  const poller = createPoller({
    flows,
    latencyMs,
    slotMs,
    startsAt: serviceStart,
    shownUpTo: (instrument) => next[instrument] as number,
  })

  const ask = async (instrument: number) => {
    await clock.sleep(latencyMs / 2)
    requests++
    const { times, sizes } = flows[instrument] as Flow
    const serviceMs = clock.monotonicMs()
    const happened = countUntil(times, serviceMs)
    const from = Math.max(0, happened - fillsPerPage)
    const shown = next[instrument] as number
    captured += happened - Math.max(from, Math.min(happened, shown))
    if (from > shown) gaps++
    next[instrument] = Math.max(shown, happened)
    const page: SeenFill[] = []
    for (let index = happened - 1; index >= from; index--)
      page.push({ ts: serviceStart + (times[index] as number), size: String(sizes[index]) })
    await clock.sleep(latencyMs / 2)
    if (respondedMs[instrument] === -1) firstMs = clock.monotonicMs()
    respondedMs[instrument] = clock.monotonicMs()
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
      })
    }
  }
  void tickerLoop()
  void requestLoop()
  await clock.advanceTo(durationMs)
  let total = 0
  for (const [instrument, { times }] of flows.entries()) {
    const end = countUntil(times, durationMs)
    total += end - (begins[instrument] as number)
    // Those that would still be shown are not lost.
    captured += Math.min(fillsPerPage, end - (next[instrument] as number))
  }
  staleness.sort((a, b) => a - b)
  const at = (share: number) => staleness[Math.floor(staleness.length * share)] ?? 0
  return {
    total,
    captured,
    gaps,
    perSecond: (requests / durationMs) * 1000,
    looksPerSecond: (looks / durationMs) * 1000,
    staleness: { medianMs: at(0.5), p95Ms: at(0.95) },
    firstMs: respondedMs.includes(-1) ? Infinity : firstMs,
  }
}
