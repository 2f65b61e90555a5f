import type { Config } from '../../config/resolve.js'
import type { Category } from '../../market/category.js'
import { type StreamName, streamTraits } from '../../market/stream.js'
import { secondsPerDay } from '../../market/values.js'
import { grouped } from '../../runtime/text.js'
import { expectedShare } from '../schedule/fillShare.js'
import { isWithin } from '../schedule/pace.js'
import { enabledStreams, fillsDemand, safeRates, watchesPerSecond } from '../streams/streams.js'
import {
  assumedBusiestFillsPerSecond,
  assumedFillTurnover,
  fillTurnoverFactor,
  type PlanUniverse,
  rankInstruments,
} from '../universe/planUniverse.js'
import type { StreamDemand } from './demand.js'

/** A stream that demands more than the limits leave for it. */
export interface Advice {
  readonly stream: StreamName
  readonly requestsPerSecond: number
  readonly affordablePerSecond: number
  /** Changes of the configuration, each of which lowers the demand. */
  readonly alternatives: readonly string[]
}

/** Says for each stream that demands more than it is allowed which options lower its demand. */
export function advise(
  config: Config,
  streams: readonly StreamDemand[],
  allowedPerSecond: ReadonlyMap<StreamName, number>,
): Advice[] {
  return streams.flatMap(({ stream, requestsPerSecond }) => {
    const affordablePerSecond = allowedPerSecond.get(stream) ?? 0
    if (isWithin(requestsPerSecond, affordablePerSecond)) return []
    return [{ stream, requestsPerSecond, affordablePerSecond, alternatives: alternativesFor(stream, config) }]
  })
}

/** How each option that bears on the demand of a stream is changed to lower it. */
const remedies = {
  schedule: 'slow down',
  everySeconds: 'raise',
  maxPollSeconds: 'raise',
  intervals: 'shorten',
  types: 'shorten',
}

function alternativesFor(name: StreamName, config: Config): string[] {
  const path = `streams.${streamTraits[name].options}`
  const options: Readonly<Record<string, unknown>> = config.streams[streamTraits[name].options]
  const found = Object.entries(remedies).flatMap(([option, change]) => {
    const value = options[option]
    // A list must not become empty.
    const isChangeable = Array.isArray(value) ? value.length > 1 : value !== undefined
    return isChangeable ? [`${change} ${path}.${option}`] : []
  })
  if ('select' in options) found.push(`lower ${path}.select.busiest or set it to fit`)
  return found.length > 0 ? found : [`set ${path}.enabled to false`]
}

/** Assumptions behind the figures of a plan, and warnings: one or two sentences each. */
export function planNotes(config: Config, universe: PlanUniverse, streams: readonly StreamDemand[]): string[] {
  const lines: string[] = []
  if (universe.kind === 'assumed') {
    lines.push(
      'The numbers of instruments are assumed, from what the live service was seen to list; ' +
        'symbol globs, exclude and minTurnover24h are not taken into account.',
    )
  }
  for (const demand of streams) {
    if (demand.stream === 'fills') lines.push(...fillsNotes(config, universe, demand))
    if (demand.stream === 'tickers' && watchesPerSecond(config) > 0) {
      lines.push(
        `Tickers count with up to ${rounded(watchesPerSecond(config))} requests/s that look for trades between recorded ones (streams.tickers.watchSeconds). While trades are few, they are not sent.`,
      )
    }
  }
  lines.push(...streams.flatMap(leftOutNotes))
  const { tickers } = config.streams
  const hasTickers = (category: Category) =>
    tickers.enabled && (tickers.categories as readonly Category[]).includes(category)
  const needsTickers = enabledStreams(config).some((stream) => {
    if (stream.kind === 'lists') return false
    const { busiest, minTurnover24h, categories } = stream.select(config)
    const isRanked = busiest !== Infinity || minTurnover24h !== undefined
    return isRanked && categories.some((category) => !hasTickers(category))
  })
  if (needsTickers) {
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
  const { ranked } = rankInstruments(universe, fills.select)
  const chosen = ranked.slice(0, demand.instruments)
  const { neededPerSecond, neededRange, fillsPerDay, measured } = fillsDemand(chosen, fills.maxPollSeconds)
  const known = measured === 0 ? '' : ` For ${measured} instruments the rate is what was recorded lately.`
  const basis =
    universe.kind === 'assumed'
      ? `${assumedBusiestFillsPerSecond}/s for the busiest instrument, and 1/r of that at rank r`
      : `one for each ${assumedFillTurnover} of turnover here, in quote coin`
  const [least, most] = [rounded(neededRange.least), rounded(neededRange.most)]
  const needed =
    least === most
      ? `${least} requests/s`
      : `With fills ${fillTurnoverFactor} times as large or as small, ${least} to ${most} requests/s`
  const lines = [
    `Fills are an estimate: ${basis}.${known} ${needed} are needed. Where the limits leave room, more are sent.`,
  ]
  if (fillsPerDay > 0) {
    // The schedule uses all requests that are left to it, even beyond the needed ones.
    const share = Math.round(expectedShare(fillsPerDay / secondsPerDay, safeRates(config).perSecond.fills) * 100)
    lines.push(
      `About ${share} % of the fills are expected to be captured at once. The rest, of bursts, are gaps, filled from the service's history where it has one.`,
    )
  }
  if (fills.select.busiest === 'fit' && neededPerSecond > demand.requestsPerSecond) {
    lines.push(
      `Fills need ${rounded(neededPerSecond)} requests/s and get ${rounded(demand.requestsPerSecond)}: the busiest instruments will have gaps.`,
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
