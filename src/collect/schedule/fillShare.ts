import { fillsPerPage } from '../../market/rows.js'
import { hourMs } from '../../market/values.js'

/**
 * Share of all fills that is captured, by the mean number of new fills in a response. It was measured on recorded tapes
 * (`npm run bench -- fills --tapes`). Bursts fill pages long before the average does.
 */
const measured: readonly (readonly [fillsPerResponse: number, share: number])[] = [
  [0, 1],
  [1, 0.97],
  [12, 0.9],
  [22, 0.88],
  [44, 0.82],
  [100, 0.68],
]

/**
 * Expected share of the fills that are captured, 0 to 1, where the most pressing instrument is requested first. Beyond
 * a full page of fills per response, the share falls in inverse proportion to their number.
 */
export function expectedShare(fillsPerSecond: number, requestsPerSecond: number): number {
  if (fillsPerSecond <= 0) return 1
  if (requestsPerSecond <= 0) return 0
  const perResponse = fillsPerSecond / requestsPerSecond
  const [last, lastShare] = measured.at(-1) as readonly [number, number]
  if (perResponse >= last) return (lastShare * last) / perResponse
  const next = measured.findIndex(([fills]) => fills > perResponse)
  const [from, fromShare] = measured[next - 1] as readonly [number, number]
  const [to, toShare] = measured[next] as readonly [number, number]
  return fromShare + ((toShare - fromShare) * (perResponse - from)) / (to - from)
}

/** Above this expected share, tickers that are a second or two old suffice. */
const maxShareWorthWatching = 0.95
/** Tickers are worth a request when this many fills are expected that no ticker has told of yet. */
const fillsWorthTickers = 60

/**
 * Returns the worth of reading tickers that would tell of `untold` fills: 1 or more is worth a request. Returns 0 if
 * the limits allow so many requests for fills that late news of a burst costs nothing.
 */
export function worthOfTickers(fillsPerSecond: number, allowedPerSecond: number, untold: () => number): number {
  const isCostly = expectedShare(fillsPerSecond, allowedPerSecond) < maxShareWorthWatching
  return isCostly ? untold() / fillsWorthTickers : 0
}

/** Number of new fills per response that requests are planned for. Only bursts then fill a page. */
export const plannedFillsPerResponse = 33

/** Returns a warning if the limits do not suffice for the fills of all instruments; null if they do. */
export function fillShortage(fillsPerSecond: number, allowedPerSecond: number): string | null {
  const neededPerSecond = fillsPerSecond / plannedFillsPerResponse
  if (neededPerSecond <= allowedPerSecond) return null
  const what = `${fillsPerSecond.toFixed(0)} fills/s need ${neededPerSecond.toFixed(1)} requests/s, ${allowedPerSecond.toFixed(1)} are allowed`
  const isFull = fillsPerSecond > allowedPerSecond * fillsPerPage
  const then = isFull ? 'the busiest instruments lose fills' : 'bursts may cost fills'
  const share = Math.round(expectedShare(fillsPerSecond, allowedPerSecond) * 100)
  return `${what}: ${then}, about ${share} % are expected to be captured; cover fewer with streams.fills.select`
}

/** Longest wait for an instrument that brings nothing, unless maxPollMs is longer. Trading may begin at any time. */
const longestMs = hourMs

/** Longest time between two requests for an instrument after `empty` responses in a row that brought nothing new. */
export function longestWaitMs(empty: number, maxPollMs: number): number {
  return Math.min(Math.max(longestMs, maxPollMs), maxPollMs * 2 ** Math.min(empty, 20))
}

/**
 * Mean of `longestWaitMs` for an instrument whose fills come at random times. An instrument is requested at least this
 * often while no other is busier.
 *
 * @param fillsPerMs fills per millisecond
 */
export function meanWaitMs(fillsPerMs: number, maxPollMs: number): number {
  let weights = 0
  let weighted = 0
  // The weight is how often this number of empty responses in a row occurs, relative to zero of them.
  for (let empty = 0, weight = 1; ; empty++) {
    const waitMs = longestWaitMs(empty, maxPollMs)
    const isLongest = waitMs === longestWaitMs(empty + 1, maxPollMs)
    const chanceOfNone = Math.exp(-fillsPerMs * waitMs)
    if (isLongest && chanceOfNone === 1) return waitMs
    const occurs = isLongest ? weight / (1 - chanceOfNone) : weight
    weights += occurs
    weighted += occurs * waitMs
    if (isLongest) return weighted / weights
    weight *= chanceOfNone
  }
}
