import type { FundingRate, FuturesCategory } from '../../market/funding.js'
import type { RowOf } from '../../market/stream.js'
import {
  checkRepeated,
  optionalDecimal,
  optionalInteger,
  optionalTime,
  requiredDecimal,
  requiredKey,
  requiredTime,
} from './fields.js'
import { anObject, type Format, noExtra } from './format.js'

export interface FundingRateQuery {
  readonly category: FuturesCategory
  readonly symbol: string
  /** Pages are numbered from 1, the newest first. */
  readonly cursor?: number
  /** At most 100. */
  readonly limit?: number
}

export const fundingRateFormat: Format<FundingRateQuery, FundingRate> = {
  shape: anObject,
  fields: new Set(['symbol', 'fundingRate', 'fundingRateTimestamp']),
  read(wire, { query, receivedAt }, notes) {
    const symbol = requiredKey(wire['symbol'], 'symbol', notes)
    checkRepeated('symbol', symbol, query.symbol, notes)
    return {
      category: query.category,
      symbol,
      ts: requiredTime(wire['fundingRateTimestamp'], 'fundingRateTimestamp', notes),
      fundingRate: requiredDecimal(wire['fundingRate'], 'fundingRate', notes),
      receivedAt,
      extra: noExtra,
    }
  },
  timeOf: ({ ts }) => ts,
}

/** All instruments of a category at once. */
export interface FundingForecastQuery {
  readonly category: FuturesCategory
}

export const fundingForecastFormat: Format<FundingForecastQuery, RowOf<'funding_forecasts'>> = {
  shape: anObject,
  fields: new Set(['symbol', 'fundingRate', 'fundingRateInterval', 'nextUpdate', 'minFundingRate', 'maxFundingRate']),
  read: (wire, { query, requestTime, receivedAt }, notes) => ({
    category: query.category,
    symbol: requiredKey(wire['symbol'], 'symbol', notes),
    ts: requestTime,
    fundingRate: requiredDecimal(wire['fundingRate'], 'fundingRate', notes),
    intervalHours: optionalInteger(wire['fundingRateInterval'], 'fundingRateInterval', notes),
    nextUpdate: optionalTime(wire['nextUpdate'], 'nextUpdate', notes),
    minRate: optionalDecimal(wire['minFundingRate'], 'minFundingRate', notes),
    maxRate: optionalDecimal(wire['maxFundingRate'], 'maxFundingRate', notes),
    receivedAt,
    extra: noExtra,
  }),
}
