import type { Config } from '../../config/resolve.js'
import { streamOptions } from '../../config/streamOptions.js'
import { intervalMs } from '../../market/candle.js'
import { type StreamName, streamNames } from '../../market/stream.js'
import type { Allowances } from './allowances.js'
import { isWithin } from '../schedule/fit.js'
import { runsPerDay, streamDemand } from './planDemand.js'
import type { Select } from '../universe/select.js'
import type { PlanUniverse } from '../universe/planUniverse.js'

/** One option to set, by its path in the configuration. */
export interface Change {
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

/** Finds for each stream over its allowance the changes that bring it inside. Each was tried, so it does fit. */
export function advise(config: Config, universe: PlanUniverse, { perSecond }: Allowances): Advice[] {
  return streamNames.flatMap((stream) => {
    const affordablePerSecond = perSecond.get(stream)
    if (affordablePerSecond === undefined) return []
    const demandWith = (changes: readonly Change[]) =>
      streamDemand(stream, changes.reduce(applyChange, config), universe, affordablePerSecond).requestsPerSecond
    const requestsPerSecond = demandWith([])
    if (isWithin(requestsPerSecond, affordablePerSecond)) return []
    const alternatives = options(stream, config).flatMap(({ option, from, candidates }) => {
      const fits = (to: unknown) => isWithin(demandWith([{ option, from, to }]), affordablePerSecond)
      const to = firstFitting(candidates, fits)
      return to === undefined ? [] : [{ option, from, to }]
    })
    const off = { option: `streams.${streamOptions[stream]}.enabled`, from: true, to: false }
    return [
      { stream, requestsPerSecond, affordablePerSecond, alternatives: alternatives.length > 0 ? alternatives : [off] },
    ]
  })
}

/** A copy of the configuration with one option set. */
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

const longestSeconds = 86_400
const maxInstruments = 100_000

function options(stream: StreamName, { streams }: Config): Adjustable[] {
  const path = `streams.${streamOptions[stream]}`
  switch (stream) {
    case 'instruments':
    case 'rpi_symbols':
    case 'tickers': {
      const from = streams[streamOptions[stream]].schedule
      return [{ option: `${path}.schedule`, from, candidates: slowerSchedules(from) }]
    }
    case 'order_books':
    case 'rpi_order_books': {
      const { everySeconds, select } = streams[streamOptions[stream]]
      return [
        { option: `${path}.everySeconds`, from: everySeconds, candidates: rising(everySeconds, longestSeconds) },
        ...fewer(path, select),
      ]
    }
    case 'fills': {
      const { maxPollSeconds, select } = streams.fills
      return [
        { option: `${path}.maxPollSeconds`, from: maxPollSeconds, candidates: rising(maxPollSeconds, longestSeconds) },
        ...fewer(path, select),
      ]
    }
    case 'candles': {
      const { intervals, types, select } = streams.candles
      const coarsestFirst = [...intervals].sort((a, b) => intervalMs[b] - intervalMs[a])
      return [
        ...fewer(path, select),
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
