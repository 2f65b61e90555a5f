import type { Category, TradedCategory } from '../../market/category.js'
import type { Fill } from '../../market/rows.js'
import { serviceMs, type ServiceMs } from '../../market/values.js'
import {
  checkRepeated,
  optionalBoolean,
  optionalKey,
  requiredAmount,
  requiredDecimal,
  requiredKey,
  requiredTime,
  requiredWord,
} from './fields.js'
import { anObject, type Format, noExtra } from './rows.js'

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
