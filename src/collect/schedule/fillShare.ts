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

/** Beyond this share of what is allowed there is no room left for a burst of many instruments at once. */
const comfortableShare = 0.8

/**
 * Says that the limits do not suffice for all instruments; null when they do.
 *
 * @param neededPerSecond requests a second with every response full of new fills
 */
export function fillShortage(neededPerSecond: number, allowedPerSecond: number): string | null {
  if (neededPerSecond <= allowedPerSecond * comfortableShare) return null
  const what = `${neededPerSecond.toFixed(1)} requests/s are needed with every response full, ${allowedPerSecond.toFixed(1)} are allowed`
  const share = expectedShare(neededPerSecond * fillsPerPage, allowedPerSecond)
  const then = neededPerSecond > allowedPerSecond ? 'the busiest instruments lose fills' : 'bursts may cost fills'
  return `${what}: ${then}, about ${Math.round(share * 100)} % are expected to be captured; cover fewer with streams.fills.select`
}
