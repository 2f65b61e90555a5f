import { type CandleType, candleTypes } from '../market/candle.js'
import {
  type Category,
  categories,
  isTradedCategory,
  tradedCategories,
  type TradedCategory,
} from '../market/category.js'
import type { Operation } from '../market/operation.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { Quirks } from './world/quirks.js'
import { type ServedInterval, servedIntervals } from './world/intervals.js'
import { isRemoved, isShown, type Listing } from './world/listing.js'
import type { World } from './world/world.js'

/** Intervals that the specification names. */
const specifiedIntervals = servedIntervals.slice(0, 10)

/** Thrown for a failure in the service's own terms: its code and message become the response. */
export class ServiceFailure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message)
  }
}

export type Query = Readonly<Record<string, string>>

/** Returns the parameters of a request. If a name occurs twice, the last value wins. */
export function queryOf(search: URLSearchParams): Query {
  return Object.fromEntries(search)
}

function required(query: Query, name: string): string {
  const value = query[name]
  if (value === undefined) throw new ServiceFailure('400172', `Parameter ${name} is missing`)
  if (value === '') throw new ServiceFailure('40019', `Parameter ${name} cannot be empty`)
  return value
}

function oneOf<Value extends string>(values: readonly Value[], name: string, value: string): Value {
  const found = values.find((candidate) => candidate === value)
  if (found === undefined) throw new ServiceFailure('400172', `Parameter ${name} verification failed`)
  return found
}

/** Reads the category of a request. The live service was seen to lose categories for a while, or for good. */
export function categoryOf(operation: Operation, query: Query, quirks: Quirks): Category {
  const value = required(query, 'category')
  const missing = quirks.missingCategories.find(
    ({ category, operations }) => category === value && operations?.includes(operation) !== false,
  )
  if (missing) throw new ServiceFailure(missing.code, `Parameter category ${value} does not exist`)
  const category = categories.find((candidate) => candidate === value)
  if (category !== undefined) return category
  // Tickers respond with another code than the other operations.
  throw operation === 'tickers'
    ? new ServiceFailure('40034', `Parameter category ${value} does not exist`)
    : new ServiceFailure('400172', 'Parameter category verification failed')
}

/** Reads a category that has its own books and candles. For tickers of margin, the service gives those of spot. */
export function tradedCategoryOf(operation: Operation, query: Query, quirks: Quirks): TradedCategory {
  const category = categoryOf(operation, query, quirks)
  if (category === 'MARGIN' && operation === 'tickers') return 'SPOT'
  if (!isTradedCategory(category)) throw new ServiceFailure('400172', 'Parameter category verification failed')
  return category
}

export function symbolOf(query: Query): string {
  return required(query, 'symbol')
}

export function wholeNumber(query: Query, name: string): number | undefined {
  const value = query[name]
  if (value === undefined || value === '') return undefined
  if (!/^\d{1,15}$/.test(value)) throw new ServiceFailure('40020', `Parameter ${name} error`)
  return Number(value)
}

/** Reads the limit of a request. A limit over the maximum is cut silently, or refused. */
export function limitOf(query: Query, standard: number, maximum: number, over: 'cut' | 'refuse'): number {
  const limit = wholeNumber(query, 'limit') ?? standard
  if (limit < 1) throw new ServiceFailure('40020', 'Parameter limit error')
  if (limit > maximum && over === 'refuse') throw new ServiceFailure('40020', `Parameter limit exceeds ${maximum}`)
  return Math.min(limit, maximum)
}

export interface PastFillsQuery {
  readonly category: TradedCategory
  /** The symbol as the history spells it. */
  readonly symbol: string
  readonly limit: number
  /** Start and end of the range; both belong to it. */
  readonly startTime: TimeMs
  readonly endTime: TimeMs
  readonly idLessThan: bigint | null
}

const maxPastFillsSpanMs = 7 * dayMs

/** Reads a query for past fills. Without times, it asks for the newest ones. With one time, it covers seven days. */
export function pastFillsQueryOf(operation: PastFillsOperation, query: Query, at: TimeMs): PastFillsQuery {
  const futures = tradedCategories.filter((category) => category !== 'SPOT')
  const category =
    operation === 'spot-fills-history' ? 'SPOT' : oneOf(futures, 'productType', required(query, 'productType'))
  const [start, end] = [wholeNumber(query, 'startTime'), wholeNumber(query, 'endTime')]
  const endTime = end ?? (start === undefined ? at : start + maxPastFillsSpanMs)
  const startTime = start ?? (end === undefined ? Number.NEGATIVE_INFINITY : end - maxPastFillsSpanMs)
  const isTooLong = start !== undefined && endTime - startTime > maxPastFillsSpanMs
  if (startTime > endTime || isTooLong) throw new ServiceFailure('400172', 'Parameter startTime verification failed')
  const id = query['idLessThan'] ?? ''
  if (!/^\d{0,30}$/.test(id)) throw new ServiceFailure('400172', 'Parameter idLessThan verification failed')
  return {
    category,
    symbol: symbolOf(query),
    limit: limitOf(query, 500, 1_000, 'refuse'),
    startTime,
    endTime,
    idLessThan: id === '' ? null : BigInt(id),
  }
}

export type PastFillsOperation = 'futures-fills-history' | 'spot-fills-history'

export interface CandleQuery {
  readonly category: TradedCategory
  readonly symbol: string
  readonly interval: ServedInterval
  readonly type: CandleType
  readonly startTime: TimeMs | undefined
  readonly endTime: TimeMs | undefined
  readonly limit: number
}

const maxHistorySpanMs = 90 * dayMs

export function candleQueryOf(operation: 'candles' | 'history-candles', query: Query, quirks: Quirks): CandleQuery {
  const isHistory = operation === 'history-candles'
  const parsed = {
    category: tradedCategoryOf(operation, query, quirks),
    symbol: symbolOf(query),
    interval: oneOf(
      quirks.furtherIntervals ? servedIntervals : specifiedIntervals,
      'interval',
      required(query, 'interval'),
    ),
    type: oneOf(candleTypes, 'type', query['type'] || 'market'),
    startTime: wholeNumber(query, 'startTime'),
    endTime: wholeNumber(query, 'endTime'),
    limit: isHistory ? limitOf(query, 100, 100, 'refuse') : limitOf(query, 1_000, 1_000, 'refuse'),
  }
  const { startTime, endTime } = parsed
  if (startTime !== undefined && endTime !== undefined) {
    if (startTime > endTime) throw new ServiceFailure('40017', 'Parameter verification failed startTime endTime')
    if (isHistory && endTime - startTime > maxHistorySpanMs) {
      throw new ServiceFailure('40705', 'The start and end time cannot exceed 90 days')
    }
  }
  return parsed
}

/** Returns the listing that a request names. Throws a failure in the service's terms if it does not list it. */
export function requireListing(
  world: World,
  operation: Operation,
  category: Category,
  symbol: string,
  at: TimeMs,
): Listing {
  const listing = world.find(category, symbol)
  if (listing && isRemoved(listing, at)) throw new ServiceFailure('40309', 'The symbol has been removed')
  if (!listing || !isShown(listing, at))
    throw new ServiceFailure(operation === 'orderbook' ? '25100' : '40034', `Parameter ${symbol} does not exist`)
  if (listing.failsWith !== null) throw new ServiceFailure(listing.failsWith, `${symbol} cannot be answered for`)
  return listing
}
