import { type Candle, type CandleType, closeTime, type Interval } from '../../market/candle.js'
import type { TradedCategory } from '../../market/category.js'
import type { TimeMs } from '../../market/values.js'
import { requiredDecimal as decimal, requiredTime } from './fields.js'
import { anArray, type Format, type WireArray } from './format.js'

export interface CandleQuery {
  readonly category: TradedCategory
  readonly symbol: string
  readonly interval: Interval
  readonly type?: CandleType
  readonly startTime?: TimeMs
  readonly endTime?: TimeMs
  readonly limit?: number
  /** Not sent: how long after its close a candle counts as closed. Default 0. */
  readonly settleMs?: number
}

const noParts: readonly string[] = []

/**
 * @param settleMs how long after its close a candle counts as closed, by the service's own clock: the service may still change
 * it in the first moments, and our clock may be wrong
 */
export function candleFormat(settleMs: number): Format<CandleQuery, Candle, WireArray> {
  return {
    shape: anArray,
    read(wire, { query, requestTime }, problems) {
      const openTime = requiredTime(wire[0], '0', problems)
      return {
        category: query.category,
        symbol: query.symbol,
        type: query.type ?? 'market',
        interval: query.interval,
        openTime,
        open: decimal(wire[1], '1', problems),
        high: decimal(wire[2], '2', problems),
        low: decimal(wire[3], '3', problems),
        close: decimal(wire[4], '4', problems),
        baseVolume: decimal(wire[5], '5', problems),
        quoteTurnover: decimal(wire[6], '6', problems),
        isClosed: requestTime >= closeTime(openTime, query.interval) + settleMs,
      }
    },
    unknownParts: (wire) => (wire.length > 7 ? ['[7]'] : noParts),
    timeOf: ({ openTime }) => openTime,
  }
}
