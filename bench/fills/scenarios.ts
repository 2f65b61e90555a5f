import { createRandom, type FillMarket, type Flow, normal, type Random, rollingTickers } from './market.js'
import { drawCluster, type Tape } from './tapes.js'

export interface Scenario {
  readonly name: string
  /** Mean rate of all instruments together. */
  readonly fillsPerSecond: number
  /** Requests a second that the service allows: 20 make 18.2. */
  readonly limit: number
  readonly shape: 'calm' | 'realistic' | 'opening' | 'crash'
  /** Least share that the recorder must capture, of what a schedule captures that knows the present. */
  readonly minShare: number
}

export const scenarios: readonly Scenario[] = [
  { name: 'calm', fillsPerSecond: 219, limit: 20, shape: 'calm', minShare: 0.96 },
  { name: 'realistic', fillsPerSecond: 400, limit: 20, shape: 'realistic', minShare: 0.94 },
  { name: 'opening', fillsPerSecond: 477, limit: 20, shape: 'opening', minShare: 0.94 },
  { name: 'crash minute', fillsPerSecond: 410, limit: 20, shape: 'crash', minShare: 0.94 },
  { name: 'realistic, half', fillsPerSecond: 400, limit: 10, shape: 'realistic', minShare: 0.92 },
  { name: 'crash, half', fillsPerSecond: 410, limit: 10, shape: 'crash', minShare: 0.92 },
]

const instruments = 200
/** Fills are known from so long before the start: the first responses show them. */
const beforeMs = 300_000
/** A tape is slowed down by at most so much; beyond that some of its clusters are left out. */
const maxSlowdown = 6
const [minBlockMs, maxBlockMs] = [60_000, 240_000]

/**
 * A market of 200 instruments out of pieces of tapes. Their rates are skewed as those of a real market; clusters of fills
 * keep their shape, the time between them is scaled. What all instruments have in common is a multiplier of the rate.
 */
export function tapeMarket(
  tapes: readonly Tape[],
  { name, fillsPerSecond, shape }: Scenario,
  window: number,
  durationMs: number,
): FillMarket {
  const random = createRandom(window * 7919 + 17)
  const activity = activityOf(shape, durationMs, random)
  const rates = skewedRates(fillsPerSecond, random)
  const flows: Flow[] = []
  const yesterday: Flow[] = []
  const even = new Float64Array(Math.ceil((beforeMs + durationMs) / 1000) + 1).fill(1)
  for (const perSecond of rates) {
    const tape = fittingTape(tapes, perSecond, random)
    flows.push(flowOf(tape, perSecond, activity, random))
    yesterday.push(flowOf(tape, perSecond, even, random))
  }
  const daily = rates.map((perSecond) => perSecond * 86_400)
  return {
    name: `${name}, window ${window}`,
    durationMs,
    flows,
    ticker: rollingTickers(flows, yesterday, daily),
  }
}

/** Fills a second: nearly in inverse proportion to the rank, with noise. */
function skewedRates(total: number, random: Random): number[] {
  const weights = Array.from({ length: instruments }, (_, rank) => Math.exp(0.4 * normal(random)) / (rank + 3) ** 1.1)
  const sum = weights.reduce((a, b) => a + b, 0)
  return weights.map((weight) => (weight / sum) * total)
}

/** A tape whose own rate is not far from what is wanted, so that it need not be bent much. */
function fittingTape(tapes: readonly Tape[], perSecond: number, random: Random): Tape {
  const fits = tapes.filter((tape) => perSecond / tape.perSecond <= 3 && perSecond / tape.perSecond >= 1 / 60)
  const nearest = tapes.toSorted((a, b) => distance(a, perSecond) - distance(b, perSecond)).slice(0, 4)
  const among = fits.length > 0 ? fits : nearest
  return among[Math.floor(random() * among.length)] as Tape
}

function distance(tape: Tape, perSecond: number): number {
  return Math.abs(Math.log(tape.perSecond / perSecond))
}

/** The common multiplier of the rates in each second from `beforeMs` before the start, on average 1. */
function activityOf(shape: Scenario['shape'], durationMs: number, random: Random): Float64Array {
  const seconds = Math.ceil((beforeMs + durationMs) / 1000) + 1
  const values = new Float64Array(seconds)
  const start = (beforeMs + durationMs * (0.25 + 0.3 * random())) / 1000
  const swing = shape === 'calm' ? 0.15 : 0.35
  for (let second = 0, level = 0; second < seconds; second++) {
    level += -level / 60 + swing * Math.sqrt(2 / 60) * normal(random)
    const since = second - start
    const opening = shape === 'opening' && since >= 0 ? 4 * Math.exp(-since / 120) : 0
    const crash = shape === 'crash' && since >= 0 ? (since < 60 ? 4 : 4 * Math.exp(-(since - 60) / 45)) : 0
    values[second] = Math.exp(level) * (1 + opening + crash)
  }
  const during = values.subarray(Math.floor(beforeMs / 1000))
  const mean = during.reduce((a, b) => a + b, 0) / during.length
  return values.map((value) => value / mean)
}

function flowOf(tape: Tape, perSecond: number, activity: Float64Array, random: Random): Flow {
  const speed = perSecond / tape.perSecond
  const kept = Math.min(1, speed * maxSlowdown)
  const scale = kept / speed
  const times: number[] = []
  const prices: number[] = []
  const sizes: number[] = []
  const clock = createActivityClock(activity)
  let cluster = drawCluster(tape, random)
  let blockLeftMs = minBlockMs + (maxBlockMs - minBlockMs) * random()
  for (let at = clock.advance(0); at !== undefined;) {
    const [first, end] = [tape.clusters[cluster] as number, tape.clusters[cluster + 1] as number]
    if (random() < kept) {
      for (let index = first; index < end; index++) {
        times.push(Math.floor(at + (tape.times[index] as number) - (tape.times[first] as number)))
        prices.push(tape.prices[index] as number)
        sizes.push(tape.sizes[index] as number)
      }
    }
    const isLast = cluster + 2 >= tape.clusters.length
    const gapMs = isLast ? clusterGapMs : (tape.times[end] as number) - (tape.times[end - 1] as number)
    cluster++
    blockLeftMs -= gapMs * scale
    if (isLast || blockLeftMs <= 0) {
      cluster = drawCluster(tape, random)
      blockLeftMs = minBlockMs + (maxBlockMs - minBlockMs) * random()
    }
    const spanMs = (tape.times[end - 1] as number) - (tape.times[first] as number)
    at = clock.advance(gapMs * scale, spanMs)
  }
  return inOrder({ times, prices, sizes })
}

const clusterGapMs = 1_000

/** Time that passes faster when there is more activity; it ends with the bench. */
function createActivityClock(activity: Float64Array) {
  let atMs = -beforeMs
  const endMs = -beforeMs + (activity.length - 1) * 1000
  return {
    /** Lets so much of the tape's time pass, after `realMs` that pass as they are. */
    advance(tapeMs: number, realMs = 0): number | undefined {
      atMs += realMs
      for (let left = tapeMs; left > 1e-6 && atMs < endMs;) {
        const second = Math.floor((atMs + beforeMs) / 1000)
        const rate = activity[second] as number
        const untilNext = (second + 1) * 1000 - beforeMs - atMs
        const step = Math.min(left / rate, untilNext)
        atMs = step === untilNext ? (second + 1) * 1000 - beforeMs : atMs + step
        left -= step * rate
      }
      return atMs < endMs ? atMs : undefined
    },
  }
}

function inOrder({ times, prices, sizes }: { times: number[]; prices: number[]; sizes: number[] }): Flow {
  const order = [...times.keys()].toSorted((a, b) => (times[a] as number) - (times[b] as number))
  const pick = (values: readonly number[]) => Float64Array.from(order, (index) => values[index] as number)
  return { times: pick(times), prices: pick(prices), sizes: pick(sizes) }
}
