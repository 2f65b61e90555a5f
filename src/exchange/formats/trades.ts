import type { Category, TradedCategory } from '../../market/category.js'
import type { Fill } from '../../market/rows.js'
import { hourMs, serviceMs, type ServiceMs } from '../../market/values.js'
import {
  amountOrUnset as amount,
  checkRepeated,
  type Notes,
  optionalBoolean,
  optionalKey,
  requiredAmount,
  requiredDecimal,
  requiredKey,
  requiredTime,
  requiredWord,
} from './fields.js'
import { anArray, anObject, type Format, noExtra, type WireArray } from './rows.js'
import { type Candle, type CandleType, closeTime, type Interval, intervalMs } from '../../market/candle.js'

interface FillQuery {
  readonly category: Category
  readonly symbol: string
  readonly limit?: number
}

const side = requiredWord(['buy', 'sell'])

export const fillFormat: Format<FillQuery, Fill> = {
  shape: anObject,
  fields: new Set(['execId', 'execLinkId', 'price', 'size', 'side', 'ts', 'isRPI']),
  read: (wire, { query, receivedAt }, notes) => ({
    category: query.category,
    symbol: query.symbol,
    execId: requiredKey(wire['execId'], 'execId', notes),
    execLinkId: optionalKey(wire['execLinkId'], 'execLinkId', notes),
    price: requiredDecimal(wire['price'], 'price', notes),
    size: requiredAmount(wire['size'], 'size', notes),
    side: side(wire['side'], 'side', notes),
    ts: requiredTime(wire['ts'], 'ts', notes),
    isRpi: optionalBoolean(wire['isRPI'], 'isRPI', notes),
    receivedAt,
    extra: noExtra,
  }),
  timeOf: ({ ts }) => ts,
}

interface PastFillQuery {
  readonly category: TradedCategory
  readonly symbol: string
  /** Number of fills, at most 1,000. Default 500. */
  readonly limit?: number
  /** Start and end of the range, at most 7 days apart. Without them the service gives the newest fills. */
  readonly startTime?: ServiceMs
  readonly endTime?: ServiceMs
}

/** Returns a symbol as the older interface spells it: perpetual coin futures lack their ending there. */
function pastSymbol(category: TradedCategory, symbol: string): string {
  return category === 'COIN-FUTURES' ? symbol.replace(/_CM$/, '') : symbol
}

/** A smaller time is in whole seconds, because as milliseconds it would lie before 1974. */
const minMs = 100_000_000_000

/** Rows of the history of fills. They tell neither `execLinkId` nor `isRPI`. The older interface has its own names. */
export const pastFillFormat: Format<PastFillQuery, Fill> = {
  shape: anObject,
  parametersOf: ({ category, symbol, ...range }) => ({
    ...(category === 'SPOT' ? {} : { productType: category }),
    symbol: pastSymbol(category, symbol),
    ...range,
  }),
  fields: new Set(['tradeId', 'price', 'size', 'side', 'symbol', 'ts']),
  read(wire, { query: { category, symbol }, receivedAt }, notes) {
    const time = requiredTime(wire['ts'], 'ts', notes)
    const named = optionalKey(wire['symbol'], 'symbol', notes)
    if (named !== symbol) checkRepeated('symbol', named, pastSymbol(category, symbol), notes)
    return {
      category,
      symbol,
      execId: requiredKey(wire['tradeId'], 'tradeId', notes),
      execLinkId: null,
      price: requiredDecimal(wire['price'], 'price', notes),
      size: requiredAmount(wire['size'], 'size', notes),
      side: side(wire['side'], 'side', notes),
      ts: time < minMs ? serviceMs(time * 1000) : time,
      isRpi: null,
      receivedAt,
      extra: noExtra,
    }
  },
  timeOf: ({ ts }) => ts,
}

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
      open: requiredDecimal(wire[1], '1', notes),
      high: requiredDecimal(wire[2], '2', notes),
      low: requiredDecimal(wire[3], '3', notes),
      close: requiredDecimal(wire[4], '4', notes),
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
