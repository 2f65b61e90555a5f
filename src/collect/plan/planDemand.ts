import { parse as parseCron } from 'node-cron'

import type { Config } from '../../config/resolve.js'
import { streamOptions } from '../../config/streamOptions.js'
import { intervalMs } from '../../market/candle.js'
import { whyNoCandles } from '../../market/candleKinds.js'
import type { Category } from '../../market/category.js'
import { type InstrumentKind, instrumentKinds } from '../../market/instrument.js'
import type { Operation, StreamName } from '../../market/stream.js'
import { longestCandleCycleMs, maxCandleWaitMs } from '../schedule/candleSchedule.js'
import type { Select } from '../universe/select.js'
import { fillsPerPage } from '../../market/fill.js'
import { watchesPerSecond } from './tickerWatch.js'
import { fillRequestsPerSecond, fillsDemand } from './fillsDemand.js'
import { countWithin } from '../schedule/fit.js'
import {
  expectedFillsPerSecond,
  type PlanInstrument,
  type PlanUniverse,
  rankForPlan,
  tradedCount,
} from '../universe/planUniverse.js'

/** Mean demand of a stream on the service and on the disk, over a day on which its schedule runs. */
export interface StreamDemand {
  readonly stream: StreamName
  readonly operation: Operation
  readonly instruments: number
  /** Numbers of instruments that could be recorded and are not, by the reason. */
  readonly leftOut: LeftOut
  readonly requestsPerSecond: number
  readonly rowsPerDay: number
  readonly bytesPerDay: number
  /** Bytes that the rows of a day take in TimescaleDB's columnstore. */
  readonly compressedBytesPerDay: number
}

export interface LeftOut {
  /** Instruments of kinds that the selection does not name. */
  readonly kind: number
  /** Instruments with less turnover than the selection demands. */
  readonly turnover: number
  /** Instruments beyond the number that the selection names. */
  readonly number: number
  /** Instruments for which the limits leave no room. */
  readonly limits: number
}

const secondsPerDay = 86_400

/**
 * Bytes of a row with its index, before and after compression; for books, bytes of a level. Candles, order books and
 * compressed fills were measured on TimescaleDB 2.29. Plain tickers, fills and RPI books were measured on PostgreSQL 18
 * with data of the simulator. Compressed tickers and RPI books are estimates.
 */
const bytesPerRow = {
  tickers: { plain: 232, compressed: 80 },
  fills: { plain: 232, compressed: 52 },
  candles: { plain: 192, compressed: 31.5 },
  bookLevel: { plain: 20.92, compressed: 0.88 },
  rpiBookLevel: { plain: 21.6, compressed: 1.2 },
} as const

/** @param allowedPerSecond requests per second that `busiest: fit` may use */
type DemandOf = (config: Config, universe: PlanUniverse, allowedPerSecond: number) => Omit<StreamDemand, 'stream'>

const nobody: LeftOut = { kind: 0, turnover: 0, number: 0, limits: 0 }

const demandOf: { [Name in StreamName]: DemandOf } = {
  instruments: ({ streams: { instruments } }, universe) => {
    const categories = ownLists(universe, 'instruments', instruments.categories)
    return {
      operation: 'instruments',
      instruments: universe.instruments.filter(({ category }) => categories.includes(category)).length,
      leftOut: nobody,
      requestsPerSecond: (categories.length * runsPerDay(instruments.schedule)) / secondsPerDay,
      // A row is written only when an instrument changes, which is too rare to count.
      ...stored(0, bytesPerRow.tickers),
    }
  },
  rpi_symbols: ({ streams: { rpiSymbols } }, universe) => {
    const isOwn = universe.ownership?.hasList('rpi_symbols', null) ?? true
    return {
      operation: 'rpi-symbols',
      instruments: isOwn ? universe.instruments.filter(({ hasRpi }) => hasRpi).length : 0,
      leftOut: nobody,
      requestsPerSecond: isOwn ? runsPerDay(rpiSymbols.schedule) / secondsPerDay : 0,
      ...stored(0, bytesPerRow.tickers),
    }
  },
  tickers: (config, universe) => {
    const { tickers } = config.streams
    const categories = ownLists(universe, 'tickers', tickers.categories)
    const instruments = tradedCount(universe, categories)
    // Watched tickers are not divided among recorders: each recorder watches for its own fills.
    const runs = runsPerDay(tickers.schedule)
    return {
      operation: 'tickers',
      instruments,
      leftOut: nobody,
      requestsPerSecond: (categories.length * runs) / secondsPerDay + watchesPerSecond(config),
      ...stored(instruments * runs, bytesPerRow.tickers),
    }
  },
  order_books: ({ streams: { orderBooks } }, universe, allowed) => ({
    operation: 'orderbook',
    ...bookDemand('order_books', universe, orderBooks, bytesPerRow.bookLevel, allowed),
  }),
  rpi_order_books: ({ streams: { rpiOrderBooks } }, universe, allowed) => {
    return {
      operation: 'rpi-orderbook',
      ...bookDemand('rpi_order_books', onlyWithRpi(universe), rpiOrderBooks, bytesPerRow.rpiBookLevel, allowed),
    }
  },
  fills: ({ streams: { fills } }, universe, allowed) => {
    // All instruments fit. If requests are too few for all, the schedule decides whose fills are worth them.
    const { chosen, leftOut } = cover('fills', universe, fills.select, () => 0, allowed)
    const { neededPerSecond, fillsPerDay } = fillsDemand(chosen, fills)
    const requestsPerSecond = fills.select.busiest === 'fit' ? Math.min(neededPerSecond, allowed) : neededPerSecond
    // Responses bound the number of fills that can be stored.
    const maxPerDay = requestsPerSecond * fillsPerPage * secondsPerDay
    return {
      operation: 'fills',
      instruments: chosen.length,
      leftOut,
      requestsPerSecond,
      ...stored(Math.min(fillsPerDay, maxPerDay), bytesPerRow.fills),
    }
  },
  candles: ({ streams: { candles } }, universe, allowed) => {
    const candlesOf = candlesByKind(candles)
    const costOf = candleCost(candlesOf)
    const { chosen, leftOut } = cover('candles', universe, candles.select, costOf, allowed)
    const closesPerSecond = sum(
      chosen.flatMap((instrument) => candlesOf(instrument).map(({ interval }) => 1000 / intervalMs[interval])),
    )
    return {
      operation: 'candles',
      instruments: chosen.length,
      leftOut,
      requestsPerSecond: sum(chosen.map(costOf)),
      ...stored(closesPerSecond * secondsPerDay, bytesPerRow.candles),
    }
  },
}

/** Finds the types and intervals of the configuration that instruments of each kind have. */
function candlesByKind({ intervals, types }: Config['streams']['candles']) {
  const named = types.flatMap((type) => intervals.map((interval) => ({ type, interval })))
  const has = (kind: InstrumentKind) =>
    named.filter(({ type, interval }) => whyNoCandles(kind, type, interval) === null)
  const byKind = new Map(instrumentKinds.map((kind) => [kind, has(kind)]))
  return ({ kind }: PlanInstrument) => byKind.get(kind) ?? []
}

/** Requests per second for all candle series of an instrument. */
function candleCost(candlesOf: ReturnType<typeof candlesByKind>): (instrument: PlanInstrument) => number {
  return (instrument) => {
    const fillsPerSecond = expectedFillsPerSecond(instrument)
    return sum(
      candlesOf(instrument).map(({ type, interval }) => {
        const everySeconds = Math.min(intervalMs[interval], longestCandleCycleMs) / 1000
        const quietSeconds = Math.max(everySeconds, maxCandleWaitMs / 1000)
        // Index, mark and premium candles move without a trade.
        const isActive = type === 'market' ? -Math.expm1(-fillsPerSecond * everySeconds) : 1
        return isActive / everySeconds + (1 - isActive) / quietSeconds
      }),
    )
  }
}

interface Covered {
  readonly chosen: readonly PlanInstrument[]
  readonly leftOut: LeftOut
}

/**
 * Instruments that a selection covers: the first of its ranking, by its number or by the allowance. A number counts for
 * all addresses together, and each address takes its own part. An allowance is that of one address, for its own
 * instruments.
 */
function cover(
  stream: StreamName,
  universe: PlanUniverse,
  select: Select,
  costOf: (instrument: PlanInstrument) => number,
  allowedPerSecond: number,
): Covered {
  const { ranked, leftOut } = rankForPlan(universe, select)
  const isOwn = (key: PlanInstrument) => universe.ownership?.hasInstrument(stream, key) ?? true
  if (select.busiest !== 'fit') {
    const named = ranked.slice(0, select.busiest)
    return { chosen: named.filter(isOwn), leftOut: { ...leftOut, number: ranked.length - named.length, limits: 0 } }
  }
  const own = ranked.filter(isOwn)
  const chosen = own.slice(0, countWithin(own.map(costOf), allowedPerSecond))
  return { chosen, leftOut: { ...leftOut, number: 0, limits: own.length - chosen.length } }
}

/** @param allowedPerSecond requests per second that the limits leave for the stream, used by `busiest: fit` */
export function streamDemand(
  stream: StreamName,
  config: Config,
  universe: PlanUniverse,
  allowedPerSecond: number,
): StreamDemand {
  return { stream, ...demandOf[stream](config, universe, allowedPerSecond) }
}

/** Returns true if a stream takes what the limits leave for it, instead of a number that the configuration names. */
export function takesWhatFits({ streams }: Config, stream: StreamName): boolean {
  const options = streams[streamOptions[stream]]
  return 'select' in options && options.select.busiest === 'fit'
}

/** Runs of a cron expression (seconds first) on a day on which it runs. */
export function runsPerDay(schedule: string): number {
  const { second, minute, hour } = parseCron(schedule)
  return second.length * minute.length * hour.length
}

function bookDemand(
  stream: StreamName,
  universe: PlanUniverse,
  { everySeconds, depth, select }: Config['streams']['orderBooks'],
  level: { plain: number; compressed: number },
  allowedPerSecond: number,
) {
  const { chosen, leftOut } = cover(stream, universe, select, () => 1 / everySeconds, allowedPerSecond)
  const levels = 2 * depth
  const bytes = { plain: level.plain * levels, compressed: level.compressed * levels }
  return {
    instruments: chosen.length,
    leftOut,
    requestsPerSecond: chosen.length / everySeconds,
    ...stored((chosen.length * secondsPerDay) / everySeconds, bytes),
  }
}

/** Requests per second of each instrument that a stream may cover; empty for a stream of lists. */
export function instrumentDemands(
  stream: StreamName,
  { streams }: Config,
  universe: PlanUniverse,
): { readonly instrument: PlanInstrument; readonly perSecond: number }[] {
  const askedOf = (select: Select, among: PlanUniverse, costOf: (instrument: PlanInstrument) => number) =>
    cover(stream, among, select, () => 0, Infinity).chosen.map((instrument) => ({
      instrument,
      perSecond: costOf(instrument),
    }))
  switch (stream) {
    case 'instruments':
    case 'rpi_symbols':
    case 'tickers':
      return []
    case 'order_books':
      return askedOf(streams.orderBooks.select, universe, () => 1 / streams.orderBooks.everySeconds)
    case 'rpi_order_books':
      return askedOf(streams.rpiOrderBooks.select, onlyWithRpi(universe), () => 1 / streams.rpiOrderBooks.everySeconds)
    case 'fills':
      return askedOf(streams.fills.select, universe, (instrument) => fillRequestsPerSecond(instrument, streams.fills))
    case 'candles':
      return askedOf(streams.candles.select, universe, candleCost(candlesByKind(streams.candles)))
  }
}

function onlyWithRpi(universe: PlanUniverse): PlanUniverse {
  return { ...universe, instruments: universe.instruments.filter(({ hasRpi }) => hasRpi) }
}

function ownLists<C extends Category>(
  { ownership }: PlanUniverse,
  stream: StreamName,
  all: readonly C[],
): readonly C[] {
  return ownership === undefined ? all : all.filter((category) => ownership.hasList(stream, category))
}

function stored(rowsPerDay: number, bytes: { plain: number; compressed: number }) {
  return {
    rowsPerDay,
    bytesPerDay: rowsPerDay * bytes.plain,
    compressedBytesPerDay: rowsPerDay * bytes.compressed,
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
