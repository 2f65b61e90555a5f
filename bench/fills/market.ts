import { quirksSchema } from '../../src/simulator/world/quirks.js'
import { createWorld } from '../../src/simulator/world/world.js'
import type { TradeSign } from '../../src/market/rows.js'

/** The fills of an instrument, ascending; times in milliseconds since the bench began, negative ones happened before. */
export interface Flow {
  readonly times: Float64Array
  readonly prices: Float64Array
  readonly sizes: Float64Array
}

/** A market that pollers are tried on. */
export interface FillMarket {
  readonly name: string
  readonly durationMs: number
  readonly flows: readonly Flow[]
  /** The ticker of an instrument as it was at a moment; `ts` in milliseconds since the bench began. */
  ticker(instrument: number, atMs: number): TradeSign
}

/** How many of these ascending numbers, such as times, are not larger than `until`. */
export function countUntil(times: Float64Array | Int32Array, until: number): number {
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
  const today = flows.map(runningVolumes)
  const before = yesterday.map(runningVolumes)
  return (instrument: number, atMs: number): TradeSign => {
    const flow = flows[instrument] as Flow
    const volumes = today[instrument] as Float64Array
    const dropped = before[instrument] as Float64Array
    const index = countUntil(flow.times, atMs)
    const out = countUntil((yesterday[instrument] as Flow).times, atMs)
    const count = Math.max(1, flow.times.length)
    const start = (daily[instrument] ?? 0) / count
    const volume = start * (volumes.at(-1) ?? 0) + (volumes[index] ?? 0) - (dropped[out] ?? 0)
    const lastPrice = index > 0 ? flow.prices[index - 1] : flow.prices[0]
    return { ts: atMs, volume24h: Math.max(0, volume).toFixed(6), lastPrice: String(lastPrice ?? 0) }
  }
}

/** The volume of the first n fills, by n. */
function runningVolumes({ times, sizes }: Flow): Float64Array {
  const volumes = new Float64Array(times.length + 1)
  for (let index = 0; index < times.length; index++) {
    volumes[index + 1] = (volumes[index] as number) + (sizes[index] as number)
  }
  return volumes
}

const startsAt = Date.UTC(2026, 0, 5, 12)
const category = 'USDT-FUTURES'
const beforeMs = 300_000

/** The simulator's market: a few instruments are very busy, some busy, most nearly idle. */
export function syntheticMarket(durationMs: number, seed: number): FillMarket {
  const rates = Array.from({ length: 200 }, (_, rank) => (rank < 6 ? 50 : rank < 20 ? 5 : rank < 50 ? 0.5 : 0.05))
  const symbols = rates.map((_, index) => `S${String(index).padStart(3, '0')}USDT`)
  const world = createWorld({
    seed,
    scale: 'tiny',
    activity: {},
    customInstruments: symbols.map((symbol, index) => ({
      category,
      symbol,
      fillsPerHour: (rates[index] ?? 0) * 3600,
      launchTime: Date.UTC(2020, 0, 1),
    })),
    quirks: () => quirksSchema.parse({}),
  })
  const flows = symbols.map((symbol): Flow => {
    const fills = world.fills(category, symbol, startsAt - beforeMs, startsAt + durationMs)
    return {
      times: Float64Array.from(fills, ({ ts }) => Number(ts) - startsAt),
      prices: Float64Array.from(fills, ({ price }) => Number(price)),
      sizes: Float64Array.from(fills, ({ size }) => Number(size)),
    }
  })
  return {
    name: 'simulator',
    durationMs,
    flows,
    ticker(instrument, atMs) {
      const row = world.ticker(category, symbols[instrument] as string, startsAt + atMs)
      return { ts: atMs, volume24h: row?.['volume24h'] ?? '0', lastPrice: row?.['lastPrice'] ?? null }
    },
  }
}

export type Random = () => number

/** Numbers in [0, 1) that are the same in every run for a seed (splitmix32). */
export function createRandom(seed: number): Random {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let z = state ^ (state >>> 16)
    z = Math.imul(z, 0x21f0aaad)
    z ^= z >>> 15
    z = Math.imul(z, 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32
  }
}

/** A draw from the normal distribution with mean 0 and variance 1. */
export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}
