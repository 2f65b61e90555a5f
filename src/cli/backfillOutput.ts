import type { Estimate, EventEstimate } from '../history/estimate.js'
import type { PlannedSeries } from '../history/plan.js'
import { createEstimator, type NamedRange, type Progress, type Summary } from '../history/progress.js'
import { bar, progressLine, writeOut } from './output.js'
import { streamText } from '../db/series.js'
import { grouped, inBytes } from '../runtime/text.js'
import type { Clock } from '../runtime/clock.js'

const maxNamed = 20

/** Prints the estimated number of requests, time and size of a backfill. */
export async function printEstimate(estimate: Estimate, planned: readonly PlannedSeries[]): Promise<void> {
  const { candles, requests, minutes, bytes } = estimate
  const open = planned.filter(({ missing }) => missing.length > 0).length
  await writeOut(
    [
      `series    ${grouped(planned.length)}, ${grouped(open)} incomplete`,
      `requests  ${grouped(requests.candles + requests.historyCandles)} (candles ${grouped(requests.candles)}, history-candles ${grouped(requests.historyCandles)})`,
      `minutes   ${minutes.toFixed(minutes < 10 ? 1 : 0)} at the whole budget of one IP`,
      `rows      ${grouped(candles)}`,
      `bytes     ${inBytes(bytes)} before compression`,
      '',
    ].join('\n'),
  )
}

/** Prints the estimated number of requests, time and size of a backfill of fills. */
export async function printEventEstimate(
  estimate: EventEstimate,
  planned: readonly PlannedSeries[],
  operation: string,
): Promise<void> {
  const { rows, requests, minutes, bytes, unknown } = estimate
  const open = planned.filter(({ missing }) => missing.length > 0).length
  const more = unknown === 0 ? '' : `, and those of ${grouped(unknown)} instruments that were not recorded lately`
  await writeOut(
    [
      `series    ${grouped(planned.length)}, ${grouped(open)} incomplete`,
      `requests  ${grouped(requests)} (${operation})${more}`,
      `minutes   ${minutes.toFixed(minutes < 10 ? 1 : 0)} at the whole budget of one IP`,
      `rows      ${grouped(rows)}, by how often there were some lately`,
      `bytes     ${inBytes(bytes)} before compression`,
      '',
    ].join('\n'),
  )
}

export async function printSummary(summary: Summary, stream = 'candles'): Promise<void> {
  const { rows, inserted, updated, requests, empty, unanswered, failed, left } = summary
  const lines = [
    `${stream} received`.padEnd(24) + `${grouped(rows)} (${grouped(inserted)} new, ${grouped(updated)} changed)`,
    `requests                ${grouped(requests)}`,
    `confirmed empty         ${grouped(empty.length)}`,
    `nothing came, open      ${grouped(unanswered.length)}`,
    `ranges that failed      ${grouped(failed.length)}`,
    `${stream === 'candles' ? 'candles' : 'minutes'} left`.padEnd(24) + grouped(left),
    ...named(empty).map((text) => `empty: ${text}`),
    ...named(unanswered).map(
      (text) => `nothing came: ${text}: it is asked for again after an hour; only then it may count as empty`,
    ),
  ]
  await writeOut(`${lines.join('\n')}\n`)
}

/** Lines that name each failed range and its reason, `maxNamed` ranges at most. */
export function missingLines({ failed }: Summary): string[] {
  const lines = failed.slice(0, maxNamed).map((part) => `missing: ${rangeText(part)}: ${part.reason}`)
  return failed.length > maxNamed ? [...lines, `and ${failed.length - maxNamed} more; see market.gaps`] : lines
}

function named(ranges: readonly NamedRange[]): string[] {
  return ranges.slice(0, maxNamed).map(rangeText)
}

function rangeText({ series, from, to }: NamedRange): string {
  const text = (time: number) => new Date(time).toISOString().slice(0, 19).replace(/:00$/, '')
  return `${streamText(series)} ${text(from)} to ${text(to)}`
}

interface ProgressDisplay {
  update(progress: Progress): void
  close(): void
}

interface ProgressOptions {
  /** Number of rows to fetch. */
  readonly total: number
  /** What the rows are called: `candles`, or for example `minutes of fills` for other streams. */
  readonly unit: string
  readonly clock: Clock
  /** True if another process on this host does the work. */
  readonly isHandedOver: boolean
}

/** Shows the progress of the work, see `progressLine`. */
export function openProgress({ total, unit, clock, isHandedOver }: ProgressOptions): ProgressDisplay {
  if (isHandedOver) process.stderr.write('the recorder on this host is doing the work; showing its progress\n')
  const describe = createDescriber(total, unit, clock)
  const line = progressLine()
  return {
    update(progress) {
      const text = describe(progress)
      const share = total === 0 ? 1 : Math.max(0, 1 - progress.left / total)
      line.show(() => (process.stderr.isTTY ? `${bar(share, 1)} ${Math.floor(share * 100)} % · ${text}` : text))
    },
    close: () => line.end(),
  }
}

function createDescriber(total: number, unit: string, clock: Clock): (progress: Progress) => string {
  const estimate = createEstimator(clock)
  return ({ left, reachedAt, wants, wantsEnded }) => {
    const speed = estimate(left)
    return [
      `${grouped(total - left)} of ${grouped(total)} ${unit}`,
      speed === null ? 'waiting' : `${grouped(Math.round(speed.perSecond))}/s`,
      ...(speed === null || left === 0 ? [] : [`${duration(speed.etaMs / 1000)} to go`]),
      ...(reachedAt === null ? [] : [`back to ${new Date(reachedAt).toISOString().slice(0, 16)}`]),
      `series ${Math.min(wants, wantsEnded + 1)} of ${wants}`,
    ].join(' · ')
  }
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  if (seconds < 5_400) return `${Math.ceil(seconds / 60)} min`
  return `${(seconds / 3_600).toFixed(1)} h`
}
