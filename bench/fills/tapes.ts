import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { countUntil, type Random } from './market.js'

/** A recorded run of fills of one instrument, cut into clusters: fills that are no more than a moment apart. */
export interface Tape {
  readonly name: string
  readonly times: Float64Array
  readonly prices: Float64Array
  readonly sizes: Float64Array
  /** Index of the first fill of each cluster, and the number of fills at the end. */
  readonly clusters: Int32Array
  /** Between the 2nd and the 98th percentile of its fills. */
  readonly perSecond: number
}

/** Fills that follow within this time belong to one sweep of the book: it stays as fast, however slow the instrument. */
const clusterMs = 20

/** Reads every `*.csv` of a folder, in order of their names: a heading, then `time,price,size`, times in milliseconds. */
export function readTapes(folder: string): Tape[] {
  const names = readdirSync(folder)
    .filter((name) => name.endsWith('.csv'))
    .toSorted()
  if (names.length < 2) throw new Error(`${folder} holds ${names.length} tapes (*.csv): at least two are needed`)
  return names.map((name) => readTape(join(folder, name), name.slice(0, -4)))
}

/** Every second tape is for tuning, the others for reporting. */
export function splitTapes(tapes: readonly Tape[], part: 'tune' | 'report' | 'all'): Tape[] {
  return tapes.filter((_, index) => part === 'all' || (index % 2 === 0) === (part === 'tune'))
}

function readTape(path: string, name: string): Tape {
  const rows = readFileSync(path, 'utf8')
    .split('\n')
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line) => line.split(',').map(Number))
  for (const [index, row] of rows.entries())
    if (row.length < 3 || row.some((value) => !Number.isFinite(value)))
      throw new Error(`${path}: line ${index + 2} is not time,price,size`)
  rows.sort((a, b) => (a[0] as number) - (b[0] as number))
  const column = (at: number) => Float64Array.from(rows, (row) => row[at] as number)
  const times = column(0)
  const clusters: number[] = []
  for (let index = 0; index < times.length; index++)
    if (index === 0 || (times[index] as number) - (times[index - 1] as number) > clusterMs) clusters.push(index)
  clusters.push(times.length)
  const [from, to] = [Math.floor(times.length * 0.02), Math.floor(times.length * 0.98)]
  const spanMs = (times[to] as number) - (times[from] as number)
  return {
    name,
    times,
    prices: column(1),
    sizes: column(2),
    clusters: Int32Array.from(clusters),
    perSecond: ((to - from) / Math.max(1, spanMs)) * 1000,
  }
}

/** The cluster at a random moment of the tape's liquid part. */
export function drawCluster({ times, clusters }: Tape, random: Random): number {
  const from = times[Math.floor(times.length * 0.02)] as number
  const to = times[Math.floor(times.length * 0.98)] as number
  const at = from + (to - from) * 0.97 * random()
  return Math.min(countUntil(clusters, countUntil(times, at) - 1), clusters.length - 2)
}
