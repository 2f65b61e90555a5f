import { fillsPerPage } from '../../market/rows.js'

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
 * Expected share of the fills that are captured, 0 to 1, where the most pressing instrument is asked for first. Beyond
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

/** Returns true if so few requests are allowed for these fills that bursts noticed seconds later cost some. */
export function areBurstsCostly(fillsPerSecond: number, allowedPerSecond: number): boolean {
  return expectedShare(fillsPerSecond, allowedPerSecond) < maxShareWorthWatching
}

/** Tickers are worth a request when this many fills are expected that no ticker has told of yet. */
const fillsWorthTickers = 60

/**
 * Value of reading tickers that would tell of `untold` fills. It is worth a request from 1 on, and 0 where the requests
 * for fills suffice.
 */
export function worthOfTickers(fillsPerSecond: number, allowedPerSecond: number, untold: () => number): number {
  return areBurstsCostly(fillsPerSecond, allowedPerSecond) ? untold() / fillsWorthTickers : 0
}

/** Number of new fills per response that requests are planned for. Only bursts then fill a page. */
export const plannedFillsPerResponse = 33

/** Text that says that the limits do not suffice for the fills of all instruments; null when they do. */
export function fillShortage(fillsPerSecond: number, allowedPerSecond: number): string | null {
  const neededPerSecond = fillsPerSecond / plannedFillsPerResponse
  if (neededPerSecond <= allowedPerSecond) return null
  const what = `${fillsPerSecond.toFixed(0)} fills/s need ${neededPerSecond.toFixed(1)} requests/s, ${allowedPerSecond.toFixed(1)} are allowed`
  const isFull = fillsPerSecond > allowedPerSecond * fillsPerPage
  const then = isFull ? 'the busiest instruments lose fills' : 'bursts may cost fills'
  const share = Math.round(expectedShare(fillsPerSecond, allowedPerSecond) * 100)
  return `${what}: ${then}, about ${share} % are expected to be captured; cover fewer with streams.fills.select`
}
