import { fillsPerPage } from '../../market/fill.js'

/**
 * The share of all fills that is captured where a response brings so many new ones on average, as measured on recorded tapes
 * (`npm run bench -- fills --tapes`): bursts fill pages long before the average does.
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
 * The share of the fills that these requests are expected to capture, 0 to 1, where the most pressing is asked first.
 * Beyond a full page to each response it is what pages can hold.
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

/** Where more is captured than this, tickers of a second or two ago tell enough. */
const maxShareWorthWatching = 0.95

/** Whether so many fills happen to the requests allowed that bursts, noticed seconds later, cost some. */
export function areBurstsCostly(fillsPerSecond: number, allowedPerSecond: number): boolean {
  return expectedShare(fillsPerSecond, allowedPerSecond) < maxShareWorthWatching
}

/** Tickers are worth a request of their own where so many fills are expected of which none has told yet. */
const fillsWorthTickers = 60

/**
 * How much it would help to read tickers that tell of so many fills: 1 or more where that is worth a request, 0 where the requests
 * for fills suffice without.
 */
export function worthOfTickers(fillsPerSecond: number, allowedPerSecond: number, untold: () => number): number {
  return areBurstsCostly(fillsPerSecond, allowedPerSecond) ? untold() / fillsWorthTickers : 0
}

/** Requests are planned for so many new fills to a response: the page is full in bursts alone. */
export const plannedFillsPerResponse = 33

/** Says that the limits do not suffice for the fills of all instruments; null when they do. */
export function fillShortage(fillsPerSecond: number, allowedPerSecond: number): string | null {
  const neededPerSecond = fillsPerSecond / plannedFillsPerResponse
  if (neededPerSecond <= allowedPerSecond) return null
  const what = `${fillsPerSecond.toFixed(0)} fills/s need ${neededPerSecond.toFixed(1)} requests/s, ${allowedPerSecond.toFixed(1)} are allowed`
  const isFull = fillsPerSecond > allowedPerSecond * fillsPerPage
  const then = isFull ? 'the busiest instruments lose fills' : 'bursts may cost fills'
  const share = Math.round(expectedShare(fillsPerSecond, allowedPerSecond) * 100)
  return `${what}: ${then}, about ${share} % are expected to be captured; cover fewer with streams.fills.select`
}
