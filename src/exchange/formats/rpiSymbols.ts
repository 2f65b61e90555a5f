import { tradedCategories } from '../../market/category.js'
import type { RpiSymbol } from '../../market/orderBook.js'
import { requiredKey, requiredWord } from './fields.js'
import { anObject, type Format } from './format.js'

const category = requiredWord(tradedCategories)

export const rpiSymbolFormat: Format<object, RpiSymbol> = {
  shape: anObject,
  read: (wire, _context, problems) => ({
    category: category(wire['category'], 'category', problems),
    symbol: requiredKey(wire['symbol'], 'symbol', problems),
  }),
  unknownParts: (wire) => Object.keys(wire).filter((name) => name !== 'category' && name !== 'symbol'),
}
