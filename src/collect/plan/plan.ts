import type { Config } from '../../config.js'
import { type Category, categories } from '../../market/category.js'
import { type Operation, operations } from '../../market/operation.js'
import { advise, type Advice } from './planAdvice.js'
import { budgets, isWithin, safeRates } from './planBudget.js'
import { demands, type StreamDemand } from './planDemand.js'
import { assumedBusiestFillsPerSecond, assumedFillTurnover, type PlanUniverse } from './planUniverse.js'

/** How much of a limit is asked for. */
export interface LimitUse {
  readonly requestsPerSecond: number
  /** The highest rate that stays inside the limit whatever the latency does: limit / (1 + jitter). */
  readonly safePerSecond: number
  /** Requests over what is safe; 1 is all of it. */
  readonly share: number
}

export interface Plan {
  readonly fits: boolean
  readonly universe: { readonly kind: PlanUniverse['kind']; readonly instruments: Readonly<Record<Category, number>> }
  readonly streams: readonly StreamDemand[]
  readonly operations: Readonly<Record<Operation, LimitUse>>
  readonly overall: LimitUse
  readonly bytesPerDay: number
  readonly compressedBytesPerDay: number
  /** What to change so that everything fits: one alternative of each. Empty when it fits. */
  readonly advice: readonly Advice[]
  /** What the figures rest on, and what to know about them. */
  readonly notes: readonly string[]
}

/** What a configuration asks of the service's limits and of the disk. Pure arithmetic: nothing is asked of anybody. */
export function planConfig(config: Config, universe: PlanUniverse): Plan {
  const streams = demands(config, universe)
  const safe = safeRates(config)
  const operationUse = (operation: Operation) =>
    limitUse(
      streams
        .filter((stream) => stream.operation === operation)
        .reduce((sum, stream) => sum + stream.requestsPerSecond, 0),
      safe.perSecond[operation],
    )
  const overall = limitUse(
    streams.reduce((sum, stream) => sum + stream.requestsPerSecond, 0),
    safe.overall,
  )
  const perOperation = Object.fromEntries(
    operations.map((operation) => [operation, operationUse(operation)]),
  ) as Record<Operation, LimitUse>
  return {
    fits: [overall, ...Object.values(perOperation)].every((use) => isWithin(use.requestsPerSecond, use.safePerSecond)),
    universe: { kind: universe.kind, instruments: countByCategory(universe) },
    streams,
    operations: perOperation,
    overall,
    bytesPerDay: streams.reduce((sum, stream) => sum + stream.bytesPerDay, 0),
    compressedBytesPerDay: streams.reduce((sum, stream) => sum + stream.compressedBytesPerDay, 0),
    advice: advise(config, universe, budgets(streams, safe)),
    notes: notes(config, universe, streams),
  }
}

function limitUse(requestsPerSecond: number, safePerSecond: number): LimitUse {
  return { requestsPerSecond, safePerSecond, share: requestsPerSecond / safePerSecond }
}

function countByCategory(universe: PlanUniverse): Record<Category, number> {
  const counts = Object.fromEntries(categories.map((category) => [category, 0])) as Record<Category, number>
  for (const { category } of universe.instruments) counts[category] += 1
  return counts
}

function notes(config: Config, universe: PlanUniverse, streams: readonly StreamDemand[]): string[] {
  const { orderBooks, rpiOrderBooks, fills, candles, tickers } = config.streams
  const lines: string[] = []
  if (universe.kind === 'assumed') {
    lines.push(
      'The numbers of instruments are assumed, as the live service has been seen to list them; ' +
        'symbol globs, exclude and minTurnover24h are not taken into account.',
    )
  }
  if (fills.enabled) {
    lines.push(
      universe.kind === 'assumed'
        ? `Fills are an estimate: ${assumedBusiestFillsPerSecond}/s for the busiest instrument, an r-th of that at rank r.`
        : `Fills are an estimate: one for each ${assumedFillTurnover} of turnover in quote coin.`,
    )
  }
  const ranked = [orderBooks, rpiOrderBooks, fills, candles].filter(
    ({ enabled, select }) => enabled && (select.busiest !== Infinity || select.minTurnover24h !== undefined),
  )
  const hasTickers = (category: Category) =>
    tickers.enabled && (tickers.categories as readonly Category[]).includes(category)
  if (
    ranked.some(({ select }) => select.categories.some((category) => category !== 'MARGIN' && !hasTickers(category)))
  ) {
    lines.push(
      'busiest and minTurnover24h go by the tickers: enable streams.tickers for the categories they are used with.',
    )
  }
  for (const { stream, instruments } of streams) {
    if (instruments === 0) lines.push(`${stream} covers no instrument: check its selection.`)
  }
  lines.push('Sizes were measured with other data than yours; those of compressed tickers and RPI books are estimates.')
  return lines
}
