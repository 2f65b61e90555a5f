import type { Config } from '../../config/resolve.js'
import type { CandleTarget } from '../../ledger/batch.js'
import { type Candle, type CandleType, type Interval, intervalMs, whyNoCandles } from '../../market/candle.js'
import type { InstrumentKind } from '../../market/instrument.js'
import { hourMs } from '../../market/values.js'
import { longestCandleCycleMs, maxCandleWaitMs } from '../schedule/candleSchedule.js'
import { expectedFillsPerSecond } from '../universe/planUniverse.js'
import { type InstrumentStream, secondsPerDay, traded } from './stream.js'

export const candles: InstrumentStream<CandleTarget, Candle> = {
  kind: 'instruments',
  name: 'candles',
  trigger: ({ streams: { candles: settings } }) => ({
    kind: 'candle-close',
    settleMs: settings.settleMs,
    // Candles of longer intervals are requested every hour, because it is not known at which hour they close.
    shortestMs: Math.min(hourMs, ...settings.intervals.map((interval) => intervalMs[interval])),
  }),
  select: ({ streams }) => streams.candles.select,
  targetsOf(config, keys, universe) {
    const { settleMs } = config.streams.candles
    const candlesOf = candlesByKind(config)
    return traded(keys).flatMap((key) =>
      candlesOf(universe.find(key)?.kind ?? 'other').map((candle) => ({ ...candle, settleMs, limit: 3, ...key })),
    )
  },
  fetch: (client, { category, symbol, type, interval, limit, settleMs }, options) =>
    client.candles({ category, symbol, type, interval, limit, settleMs }, options),
  costOf(config) {
    const candlesOf = candlesByKind(config)
    return (instrument) => {
      const fillsPerSecond = expectedFillsPerSecond(instrument)
      return sum(
        candlesOf(instrument.kind).map(({ type, interval }) => {
          const everySeconds = Math.min(intervalMs[interval], longestCandleCycleMs) / 1000
          const quietSeconds = Math.max(everySeconds, maxCandleWaitMs / 1000)
          // Index, mark and premium candles move without a trade.
          const isActive = type === 'market' ? -Math.expm1(-fillsPerSecond * everySeconds) : 1
          return isActive / everySeconds + (1 - isActive) / quietSeconds
        }),
      )
    }
  },
  rowsPerDayOf(config) {
    const candlesOf = candlesByKind(config)
    return ({ kind }) => sum(candlesOf(kind).map(({ interval }) => (secondsPerDay * 1000) / intervalMs[interval]))
  },
  // Bytes of a row, as measured on TimescaleDB 2.29.
  bytes: () => ({ plain: 192, compressed: 31.5 }),
}

/** Finds the types and intervals of the configuration that instruments of each kind have. */
function candlesByKind({ streams: { candles: settings } }: Config) {
  const found = new Map<InstrumentKind, readonly { readonly type: CandleType; readonly interval: Interval }[]>()
  return (kind: InstrumentKind) => {
    const known =
      found.get(kind) ??
      settings.types.flatMap((type) =>
        settings.intervals
          .filter((interval) => whyNoCandles(kind, type, interval) === null)
          .map((interval) => ({ type, interval })),
      )
    found.set(kind, known)
    return known
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
