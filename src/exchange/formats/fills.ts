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
  read: (wire, { query, receivedAt }, problems) => ({
    category: query.category,
    symbol: query.symbol,
    execId: requiredKey(wire['execId'], 'execId', problems),
    execLinkId: optionalKey(wire['execLinkId'], 'execLinkId', problems),
    price: requiredDecimal(wire['price'], 'price', problems),
    size: requiredDecimal(wire['size'], 'size', problems),
    side: side(wire['side'], 'side', problems),
    ts: requiredTime(wire['ts'], 'ts', problems),
    isRpi: optionalBoolean(wire['isRPI'], 'isRPI', problems),
    receivedAt,
    extra: noExtra,
  }),
  timeOf: ({ ts }) => ts,
}
