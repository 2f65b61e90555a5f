import type { Config } from '../../config/resolve.js'
import type { Category } from '../../market/category.js'
import { grouped } from '../../runtime/figures.js'
import { expectedShare } from '../schedule/fillShare.js'
import { safeRates } from './planBudget.js'
import { fillsDemand } from './fillsDemand.js'
import type { StreamDemand } from './planDemand.js'
import {
  assumedBusiestFillsPerSecond,
  assumedFillTurnover,
  fillTurnoverFactor,
  type PlanUniverse,
  rankForPlan,
} from '../universe/planUniverse.js'

/** Assumptions behind the figures of a plan, and warnings: one or two sentences each. */
export function planNotes(config: Config, universe: PlanUniverse, streams: readonly StreamDemand[]): string[] {
  const { orderBooks, rpiOrderBooks, fills, candles, tickers } = config.streams
  const lines: string[] = []
  if (universe.kind === 'assumed') {
    lines.push(
      'The numbers of instruments are assumed, from what the live service was seen to list; ' +
        'symbol globs, exclude and minTurnover24h are not taken into account.',
    )
  }
  for (const demand of streams) {
    if (demand.stream === 'fills') lines.push(...fillsNotes(config, universe, demand))
  }
  lines.push(...streams.flatMap(leftOutNotes))
  const ranked = [orderBooks, rpiOrderBooks, fills, candles].filter(
    ({ enabled, select }) => enabled && (select.busiest !== Infinity || select.minTurnover24h !== undefined),
  )
  const hasTickers = (category: Category) =>
    tickers.enabled && (tickers.categories as readonly Category[]).includes(category)
  if (ranked.some(({ select }) => select.categories.some((category) => !hasTickers(category)))) {
    lines.push(
      'busiest and minTurnover24h are based on tickers: enable streams.tickers for the categories they are used with.',
    )
  }
  for (const { stream, instruments } of streams) {
    if (instruments === 0) lines.push(`${stream} covers no instrument: check its selection.`)
  }
  lines.push('Sizes were measured on different data; those of compressed tickers and RPI books are estimates.')
  return lines
}

function fillsNotes(config: Config, universe: PlanUniverse, demand: StreamDemand): string[] {
  const { fills } = config.streams
  const { ranked } = rankForPlan(universe, fills.select)
  const chosen = ranked.slice(0, demand.instruments)
  const { neededPerSecond, neededRange, fillsPerDay, measured } = fillsDemand(chosen, fills)
  const known = measured === 0 ? '' : ` For ${measured} instruments the rate is what was recorded lately.`
  const basis =
    universe.kind === 'assumed'
      ? `${assumedBusiestFillsPerSecond}/s for the busiest instrument, and 1/r of that at rank r`
      : `one for each ${assumedFillTurnover} of turnover here, in quote coin`
  const range = `${rounded(neededRange.least)} to ${rounded(neededRange.most)} requests/s`
  const lines = [
    `Fills are an estimate: ${basis}.${known} With fills ${fillTurnoverFactor} times as large or as small, ${range} are needed.`,
  ]
  if (fillsPerDay > 0) {
    // The schedule uses all requests that are left to it, even beyond the needed ones.
    const share = Math.round(expectedShare(fillsPerDay / 86_400, safeRates(config).perSecond.fills) * 100)
    lines.push(`About ${share} % of the fills are expected to be captured; the rest is lost in bursts.`)
  }
  if (fills.select.busiest === 'fit' && neededPerSecond > demand.requestsPerSecond) {
    lines.push(
      `Fills need ${rounded(neededPerSecond)} requests/s and get ${rounded(demand.requestsPerSecond)}: the busiest instruments will lose some.`,
    )
  }
  return lines
}

function leftOutNotes({ stream, leftOut }: StreamDemand): string[] {
  const parts = [
    leftOut.kind > 0 ? `${grouped(leftOut.kind)} of kinds not in select.kinds` : '',
    leftOut.turnover > 0 ? `${grouped(leftOut.turnover)} with less turnover than minTurnover24h` : '',
    leftOut.number > 0 ? `${grouped(leftOut.number)} beyond select.busiest` : '',
    leftOut.limits > 0 ? `${grouped(leftOut.limits)} for which the limits leave no room` : '',
  ].filter((part) => part !== '')
  return parts.length === 0 ? [] : [`${stream} leaves out ${parts.join(', ')}.`]
}

function rounded(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond))
}
