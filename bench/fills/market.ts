import type { TradeSign } from '../../src/market/rows.js'

/** The fills of an instrument, ascending; times in milliseconds since the bench began, negative ones happened before. */
export interface Flow {
  readonly times: Float64Array
  readonly prices: Float64Array
  readonly sizes: Float64Array
}

/** What pollers are tried on. */
export interface FillMarket {
  readonly name: string
  readonly durationMs: number
  readonly flows: readonly Flow[]
  /** The ticker of an instrument as it was at a moment; `ts` in milliseconds since the bench began. */
  ticker(instrument: number, atMs: number): TradeSign
}

/** How many of these ascending times are not later than `until`. */
export function countUntil(times: Float64Array, until: number): number {
  let low = 0
  let high = times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[middle] as number) <= until) low = middle + 1
    else high = middle
  }
  return low
}

export function maxWithin(times: Float64Array, ms: number): number {
  let most = 0
  for (let from = 0, to = 0; to < times.length; to++) {
    while ((times[to] as number) - (times[from] as number) >= ms) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}

/**
 * The tickers of flows whose 24h volume rolls: what happened a day before, `yesterday`, drops out of it.
 *
 * @param daily fills in 24 hours, by which the volume at the start is estimated
 */
export function rollingTickers(flows: readonly Flow[], yesterday: readonly Flow[], daily: readonly number[]) {
  const today = flows.map(runningSums)
  const before = yesterday.map(runningSums)
  return (instrument: number, atMs: number): TradeSign => {
    const flow = flows[instrument] as Flow
    const sums = today[instrument] as RunningSums
    const dropped = before[instrument] as RunningSums
    const index = countUntil(flow.times, atMs)
    const out = countUntil((yesterday[instrument] as Flow).times, atMs)
    const count = Math.max(1, flow.times.length)
    const start = (daily[instrument] ?? 0) / count
    const volume = start * (sums.volume.at(-1) ?? 0) + (sums.volume[index] ?? 0) - (dropped.volume[out] ?? 0)
    const lastPrice = index > 0 ? flow.prices[index - 1] : flow.prices[0]
    return { ts: atMs, volume24h: Math.max(0, volume).toFixed(6), lastPrice: String(lastPrice ?? 0) }
  }
}

interface RunningSums {
  /** Of the first n fills. */
  readonly volume: Float64Array
}

function runningSums({ times, sizes }: Flow): RunningSums {
  const volume = new Float64Array(times.length + 1)
  for (let index = 0; index < times.length; index++) {
    volume[index + 1] = (volume[index] as number) + (sizes[index] as number)
  }
  return { volume }
}
