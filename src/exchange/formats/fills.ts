import type { Category } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import { optionalBoolean, optionalKey, requiredDecimal, requiredKey, requiredTime, requiredWord } from './fields.js'
import { anObject, type Format, noExtra } from './format.js'

export interface FillQuery {
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
    size: requiredDecimal(wire['size'], 'size', notes),
    side: side(wire['side'], 'side', notes),
    ts: requiredTime(wire['ts'], 'ts', notes),
    isRpi: optionalBoolean(wire['isRPI'], 'isRPI', notes),
    receivedAt,
    extra: noExtra,
  }),
  timeOf: ({ ts }) => ts,
}
