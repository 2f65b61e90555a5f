import type { Estimate } from '../history/estimate.js'
import type { PlannedSeries } from '../history/plan.js'
import type { NamedRange, Summary } from '../history/progress.js'
import { writeOut } from './output.js'
import { seriesText } from '../market/candle.js'

const maxNamed = 20

/** What a request would cost. */
export async function printEstimate(estimate: Estimate, planned: readonly PlannedSeries[]): Promise<void> {
  const { candles, requests, minutes, bytes } = estimate
  const open = planned.filter(({ missing }) => missing.length > 0).length
  await writeOut(
    [
      `series    ${count(planned.length)}, ${count(open)} incomplete`,
      `requests  ${count(requests.candles + requests.historyCandles)} (candles ${count(requests.candles)}, history-candles ${count(requests.historyCandles)})`,
      `minutes   ${minutes.toFixed(minutes < 10 ? 1 : 0)} at the whole budget of one IP`,
      `rows      ${count(candles)}`,
      `bytes     ${size(bytes)} before compression`,
      '',
    ].join('\n'),
  )
}

export async function printSummary(summary: Summary): Promise<void> {
  const { rows, inserted, updated, requests, pagesSaved, empty, unanswered, failed, left } = summary
  const lines = [
    `candles received        ${count(rows)} (${count(inserted)} new, ${count(updated)} changed)`,
    `requests                ${count(requests)}`,
    `pages saved by coverage ${count(pagesSaved)}`,
    `confirmed empty         ${count(empty.length)}`,
    `silent, not proven      ${count(unanswered.length)}`,
    `ranges that failed      ${count(failed.length)}`,
    `candles left            ${count(left)}`,
    ...named(empty).map((text) => `empty: ${text}`),
    ...named(unanswered).map(
      (text) => `silent: ${text}: no response shows a candle on both sides; will be checked again later`,
    ),
  ]
  await writeOut(`${lines.join('\n')}\n`)
}

/** What is not there and why, one line each. */
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

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}

function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${(bytes / 1000 ** unit).toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`
}
