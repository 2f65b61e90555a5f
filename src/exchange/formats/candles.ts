import { type Candle, type CandleType, closeTime, type Interval, intervalMs } from '../../market/candle.js'
import type { TradedCategory } from '../../market/category.js'
import { hourMs, type ServiceMs } from '../../market/values.js'
import { amountOrUnset as amount, type Notes, requiredDecimal as decimal, requiredTime } from './fields.js'
import { anArray, type Format, type WireArray } from './rows.js'

interface CandleQuery {
  readonly category: TradedCategory
  readonly symbol: string
  readonly interval: Interval
  readonly type?: CandleType
  readonly startTime?: ServiceMs
  readonly endTime?: ServiceMs
  readonly limit?: number
  /** How long after its close a candle counts as closed. Not sent to the service. Default 0. */
  readonly settleMs?: number
}

/**
 * The service may still change a candle in the first moments after its close. Whether a candle is closed is judged by
 * the service's clock, because ours may be wrong.
 */
export const candleFormat: Format<CandleQuery, Candle, WireArray> = {
  parametersOf: ({ settleMs: _settleMs, ...parameters }) => parameters,
  shape: anArray,
  read(wire, { query, requestTime }, notes) {
    const openTime = requiredTime(wire[0], '0', notes)
    const candle: Candle = {
      category: query.category,
      symbol: query.symbol,
      type: query.type ?? 'market',
      interval: query.interval,
      openTime,
      open: decimal(wire[1], '1', notes),
      high: decimal(wire[2], '2', notes),
      low: decimal(wire[3], '3', notes),
      close: decimal(wire[4], '4', notes),
      baseVolume: amount(wire[5], '5', notes),
      quoteTurnover: amount(wire[6], '6', notes),
      isClosed: requestTime >= closeTime(openTime, query.interval) + (query.settleMs ?? 0),
    }
    if (notes.problems.length === 0) findContradictions(candle, notes)
    return candle
  },
  timeOf: ({ openTime }) => openTime,
}

/**
 * Notes values that no candle can have. One such value makes the whole candle worthless. Prices may be negative, as
 * those of spreads are, and those of oil once were.
 */
function findContradictions({ interval, openTime, high, low }: Candle, { problems }: Notes): void {
  // Days were seen to open at 16:00 UTC, so longer intervals are only held to whole hours.
  if (openTime % Math.min(intervalMs[interval], hourMs) !== 0)
    problems.push(`0: expected an opening time of an interval of ${interval}, got ${new Date(openTime).toISOString()}`)
  if (Number(high) < Number(low)) problems.push(`2: the highest price ${high} is below the lowest ${low}`)
}
