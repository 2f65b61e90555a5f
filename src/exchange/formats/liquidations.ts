import type { FuturesCategory, Liquidation } from '../../market/funding.js'
import { checkRepeated, optionalKey, requiredDecimal, requiredTime, requiredWord } from './fields.js'
import { anObject, type Format, noExtra } from './format.js'

export interface LiquidationQuery {
  readonly category: FuturesCategory
  readonly symbol: string
  /** At most 100. */
  readonly limit?: number
  /** The cursor of the page before, for older ones. */
  readonly cursor?: string
}

const side = requiredWord(['buy', 'sell'])

export const liquidationFormat: Format<LiquidationQuery, Liquidation> = {
  shape: anObject,
  fields: new Set(['symbol', 'side', 'price', 'amount', 'ts']),
  read(wire, { query, receivedAt }, notes) {
    checkRepeated('symbol', optionalKey(wire['symbol'], 'symbol', notes), query.symbol, notes)
    return {
      category: query.category,
      symbol: query.symbol,
      ts: requiredTime(wire['ts'], 'ts', notes),
      side: side(wire['side'], 'side', notes),
      price: requiredDecimal(wire['price'], 'price', notes),
      amount: requiredDecimal(wire['amount'], 'amount', notes),
      receivedAt,
      extra: noExtra,
    }
  },
  timeOf: ({ ts }) => ts,
}
