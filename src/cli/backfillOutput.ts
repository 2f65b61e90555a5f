import type { Estimate } from '../history/estimate.js'
import type { PlannedSeries } from '../history/plan.js'
import type { NamedRange, Summary } from '../history/progress.js'
import { writeOut } from './output.js'
import { seriesText } from '../market/candle.js'
import { grouped, inBytes } from '../runtime/figures.js'

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

export async function printSummary(summary: Summary): Promise<void> {
  const { rows, inserted, updated, requests, pagesSaved, empty, unanswered, failed, left } = summary
  const lines = [
    `candles received        ${grouped(rows)} (${grouped(inserted)} new, ${grouped(updated)} changed)`,
    `requests                ${grouped(requests)}`,
    `pages saved by coverage ${grouped(pagesSaved)}`,
    `confirmed empty         ${grouped(empty.length)}`,
    `nothing came, open      ${grouped(unanswered.length)}`,
    `ranges that failed      ${grouped(failed.length)}`,
    `candles left            ${grouped(left)}`,
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
  return `${seriesText(series)} ${text(from)} to ${text(to)}`
}
