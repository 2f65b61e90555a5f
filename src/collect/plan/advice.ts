import type { Config } from '../../config/resolve.js'
import { intervalMs } from '../../market/candle.js'
import type { Category } from '../../market/category.js'
import { type StreamName, streamTraits } from '../../market/stream.js'
import { secondsPerDay } from '../../market/values.js'
import { grouped } from '../../runtime/text.js'
import { expectedShare } from '../schedule/fillShare.js'
import { isWithin } from '../schedule/pace.js'
import { runsPerDay, type StreamDemand, streamDemand } from './demand.js'
import { safeRates } from '../streams/rates.js'
import { type AnyStream, enabledStreams, fillsDemand } from '../streams/streams.js'
import {
  assumedBusiestFillsPerSecond,
  assumedFillTurnover,
  fillTurnoverFactor,
  type PlanUniverse,
  rankInstruments,
  type Select,
} from '../universe/planUniverse.js'

/** One option to set, by its path in the configuration. */
interface Change {
  readonly option: string
  readonly from: unknown
  readonly to: unknown
}

/** A stream that demands too much. Any one of the alternatives makes it fit. */
export interface Advice {
  readonly stream: StreamName
  readonly requestsPerSecond: number
  readonly affordablePerSecond: number
  readonly alternatives: readonly Change[]
}

/**
 * Finds for each stream over its allowance the changes that bring it inside. Each was tried, so it does fit.
 *
 * @param allowedPerSecond requests per second that each stream may demand
 */
export function advise(
  config: Config,
  universe: PlanUniverse,
  allowedPerSecond: ReadonlyMap<StreamName, number>,
): Advice[] {
  return enabledStreams(config).flatMap((stream) => {
    const affordablePerSecond = allowedPerSecond.get(stream.name) ?? 0
    const demandWith = (changes: readonly Change[]) =>
      streamDemand(stream, changes.reduce(applyChange, config), universe, affordablePerSecond).requestsPerSecond
    const requestsPerSecond = demandWith([])
    if (isWithin(requestsPerSecond, affordablePerSecond)) return []
    const found = adjustables(stream, config).flatMap(({ option, from, candidates }) => {
      const fits = (to: unknown) => isWithin(demandWith([{ option, from, to }]), affordablePerSecond)
      const to = firstFitting(candidates, fits)
      return to === undefined ? [] : [{ option, from, to }]
    })
    const off = { option: `streams.${streamTraits[stream.name].options}.enabled`, from: true, to: false }
    const alternatives = found.length > 0 ? found : [off]
    return [{ stream: stream.name, requestsPerSecond, affordablePerSecond, alternatives }]
  })
}

/** Returns a copy of the configuration with one option set. */
export function applyChange(config: Config, { option, to }: Change): Config {
  const copy = structuredClone(config)
  const path = option.split('.')
  const last = path.pop() ?? ''
  const group = path.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], copy)
  ;(group as Record<string, unknown>)[last] = to
  return copy
}

interface Adjustable {
  readonly option: string
  readonly from: unknown
  /** Values from the mildest change to the harshest: each demands no more requests than the one before it. */
  readonly candidates: Candidates
}

interface Candidates {
  readonly length: number
  at(index: number): unknown
}

const maxInstruments = 100_000

/** The options of a stream that change what it demands. */
function adjustables(stream: AnyStream, config: Config): Adjustable[] {
  const path = `streams.${streamTraits[stream.name].options}`
  const options: Readonly<Record<string, unknown>> = config.streams[streamTraits[stream.name].options]
  const longer = (name: string): Adjustable[] => {
    const from = options[name]
    if (typeof from !== 'number') return []
    return [{ option: `${path}.${name}`, from, candidates: rising(from, secondsPerDay) }]
  }
  if (stream.kind === 'lists') {
    const from = stream.schedule(config)
    return 'schedule' in options ? [{ option: `${path}.schedule`, from, candidates: slowerSchedules(from) }] : []
  }
  const fewerInstruments = 'select' in options ? fewer(path, stream.select(config)) : []
  switch (stream.trigger(config).kind) {
    case 'cycle':
      return [...longer('everySeconds'), ...fewerInstruments]
    case 'overlap':
      return [...longer('maxPollSeconds'), ...fewerInstruments]
    case 'candle-close': {
      const { intervals, types } = config.streams.candles
      const coarsestFirst = [...intervals].sort((a, b) => intervalMs[b] - intervalMs[a])
      return [
        ...fewerInstruments,
        { option: `${path}.intervals`, from: intervals, candidates: shorterLists(coarsestFirst) },
        { option: `${path}.types`, from: types, candidates: shorterLists(types) },
      ]
    }
  }
}

/** Offers a smaller number of instruments, or `fit`, which always fits. */
function fewer(path: string, { busiest }: Select): Adjustable[] {
  if (busiest === 'fit') return []
  const option = `${path}.select.busiest`
  const from = busiest === Infinity ? 'all' : busiest
  return [
    { option, from, candidates: falling(busiest) },
    { option, from, candidates: ['fit'] },
  ]
}

/** Finds the first candidate that fits by bisection, as candidates are ordered; undefined when none fits. */
function firstFitting(candidates: Candidates, fits: (candidate: unknown) => boolean): unknown {
  let low = 0
  let high = candidates.length
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (fits(candidates.at(middle))) high = middle
    else low = middle + 1
  }
  return low < candidates.length ? candidates.at(low) : undefined
}

function rising(from: number, to: number): Candidates {
  return { length: Math.max(0, to - from), at: (index) => from + 1 + index }
}

function falling(from: number): Candidates {
  const most = Math.min(from, maxInstruments)
  return { length: Math.max(0, most - 1), at: (index) => most - 1 - index }
}

function shorterLists(list: readonly unknown[]): Candidates {
  return { length: list.length - 1, at: (index) => list.slice(0, list.length - 1 - index) }
}

const steps = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]
const schedules = [
  ...steps.map((step) => `*/${step} * * * * *`),
  ...steps.map((step) => `0 */${step} * * * *`),
  ...[1, 2, 3, 4, 6, 8, 12].map((step) => `0 0 */${step} * * *`),
  '0 0 0 * * *',
]

function slowerSchedules(from: string): Candidates {
  const runs = runsPerDay(from)
  return schedules.filter((schedule) => runsPerDay(schedule) < runs)
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
  const range = `${rounded(neededRange.least)} to ${rounded(neededRange.most)} requests/s`
  const lines = [
    `Fills are an estimate: ${basis}.${known} With fills ${fillTurnoverFactor} times as large or as small, ${range} are needed.`,
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
