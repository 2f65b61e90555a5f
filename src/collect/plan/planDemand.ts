import { parse as parseCron } from 'node-cron'

import type { Config } from '../../config.js'
import { intervalMs } from '../../market/interval.js'
import type { Operation } from '../../market/operation.js'
import type { StreamName } from '../../market/stream.js'
import { streamNames } from '../../market/stream.js'
import { coveredInstruments, expectedFillsPerSecond, type PlanUniverse, tradedCount } from './planUniverse.js'

/** What a stream asks of the service and of the disk, on average over a day on which its schedule runs. */
export interface StreamDemand {
  readonly stream: StreamName
  readonly operation: Operation
  readonly instruments: number
  readonly requestsPerSecond: number
  readonly rowsPerDay: number
  readonly bytesPerDay: number
  /** The same rows in TimescaleDB's columnstore. */
  readonly compressedBytesPerDay: number
}

const secondsPerDay = 86_400

/**
 * Bytes a row takes with its index, before and after compression; of books, a level. Candles, order books and compressed
 * fills were measured on TimescaleDB 2.29; tickers, fills and RPI books before compression on PostgreSQL 18 with data of
 * the simulator. Compressed tickers and RPI books are estimates.
 */
const bytesPerRow = {
  tickers: { plain: 232, compressed: 80 },
  fills: { plain: 232, compressed: 52 },
  candles: { plain: 192, compressed: 31.5 },
  bookLevel: { plain: 20.92, compressed: 0.88 },
  rpiBookLevel: { plain: 21.6, compressed: 1.2 },
} as const

/** A poll is due when half of a page of 100 is new, and bursts make polls half as frequent again as the average says. */
const fillsPerRequest = 100 / 2 / 1.5

const demandOf: { [Name in StreamName]: (config: Config, universe: PlanUniverse) => Omit<StreamDemand, 'stream'> } = {
  instruments: ({ streams: { instruments } }, universe) => ({
    operation: 'instruments',
    instruments: universe.instruments.filter(({ category }) => instruments.categories.includes(category)).length,
    requestsPerSecond: (instruments.categories.length * runsPerDay(instruments.schedule)) / secondsPerDay,
    // A row is written when something changed, which is too rare to count.
    ...stored(0, bytesPerRow.tickers),
  }),
  rpi_symbols: ({ streams: { rpiSymbols } }, universe) => ({
    operation: 'rpi-symbols',
    instruments: universe.instruments.filter(({ hasRpi }) => hasRpi).length,
    requestsPerSecond: runsPerDay(rpiSymbols.schedule) / secondsPerDay,
    ...stored(0, bytesPerRow.tickers),
  }),
  tickers: ({ streams: { tickers } }, universe) => {
    const instruments = tradedCount(universe, tickers.categories)
    const runs = runsPerDay(tickers.schedule)
    return {
      operation: 'tickers',
      instruments,
      requestsPerSecond: (tickers.categories.length * runs) / secondsPerDay,
      ...stored(instruments * runs, bytesPerRow.tickers),
    }
  },
  order_books: ({ streams: { orderBooks } }, universe) => {
    const instruments = coveredInstruments(universe, orderBooks.select).length
    return { operation: 'orderbook', ...bookDemand(instruments, orderBooks, bytesPerRow.bookLevel) }
  },
  rpi_order_books: ({ streams: { rpiOrderBooks } }, universe) => {
    const withRpi = { ...universe, instruments: universe.instruments.filter(({ hasRpi }) => hasRpi) }
    const instruments = coveredInstruments(withRpi, rpiOrderBooks.select).length
    return { operation: 'rpi-orderbook', ...bookDemand(instruments, rpiOrderBooks, bytesPerRow.rpiBookLevel) }
  },
  fills: ({ streams: { fills, tickers } }, universe) => {
    const covered = coveredInstruments(universe, fills.select)
    const withTicker = new Set<string>(tickers.enabled ? tickers.categories : [])
    const rates = covered.map((instrument) => ({
      fills: expectedFillsPerSecond(instrument),
      seesTrades: withTicker.has(instrument.category),
    }))
    const requests = rates.map(({ fills: rate, seesTrades }) => {
      const dueSeconds = Math.max(fills.minPollSeconds, Math.min(fills.maxPollSeconds, fillsPerRequest / rate))
      return 1 / (dueSeconds + (seesTrades ? idleSeconds(rate, dueSeconds) : 0))
    })
    return {
      operation: 'fills',
      instruments: covered.length,
      requestsPerSecond: sum(requests),
      ...stored(sum(rates.map((rate) => rate.fills)) * secondsPerDay, bytesPerRow.fills),
    }
  },
  candles: ({ streams: { candles } }, universe) => {
    const instruments = coveredInstruments(universe, candles.select).length
    const series = instruments * candles.types.length
    const perSecond = (longestMs: number) =>
      sum(candles.intervals.map((interval) => 1000 / Math.min(longestMs, intervalMs[interval])))
    return {
      operation: 'candles',
      instruments,
      // Candles of more than an hour are looked at hourly, because it is not known at which hour they close.
      requestsPerSecond: series * perSecond(intervalMs['1H']),
      ...stored(series * perSecond(Infinity) * secondsPerDay, bytesPerRow.candles),
    }
  },
}

/** How long an instrument goes unasked while its ticker shows no trade; after that it is asked all the same. */
const longestIdleSeconds = 3600

/** Seconds on average that a request which is due still waits for a trade, with trades at random times. */
function idleSeconds(fillsPerSecond: number, dueSeconds: number): number {
  if (fillsPerSecond === 0) return longestIdleSeconds
  const isStillIdle = Math.exp(-fillsPerSecond * dueSeconds)
  return (isStillIdle * (1 - Math.exp(-fillsPerSecond * longestIdleSeconds))) / fillsPerSecond
}

/** The option group of each stream in the configuration. */
export const streamOptions = {
  instruments: 'instruments',
  rpi_symbols: 'rpiSymbols',
  tickers: 'tickers',
  order_books: 'orderBooks',
  rpi_order_books: 'rpiOrderBooks',
  fills: 'fills',
  candles: 'candles',
} as const satisfies Record<StreamName, keyof Config['streams']>

export function streamDemand(stream: StreamName, config: Config, universe: PlanUniverse): StreamDemand {
  return { stream, ...demandOf[stream](config, universe) }
}

/** The demand of every stream that is switched on. */
export function demands(config: Config, universe: PlanUniverse): StreamDemand[] {
  return streamNames
    .filter((stream) => config.streams[streamOptions[stream]].enabled)
    .map((stream) => streamDemand(stream, config, universe))
}

/** Runs of a cron expression (seconds first) on a day on which it runs at all. */
export function runsPerDay(schedule: string): number {
  const { second, minute, hour } = parseCron(schedule)
  return second.length * minute.length * hour.length
}

function bookDemand(
  instruments: number,
  { everySeconds, depth }: { everySeconds: number; depth: number },
  level: { plain: number; compressed: number },
) {
  const levels = 2 * depth
  const bytes = { plain: level.plain * levels, compressed: level.compressed * levels }
  return {
    instruments,
    requestsPerSecond: instruments / everySeconds,
    ...stored((instruments * secondsPerDay) / everySeconds, bytes),
  }
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
