import { tradedCategories } from '../../market/category.js'
import type { RpiSymbol } from '../../market/rows.js'
import { requiredKey, requiredWord } from './fields.js'
import { anObject, type Format } from './format.js'

const category = requiredWord(tradedCategories)

export const rpiSymbolFormat: Format<object, RpiSymbol> = {
  shape: anObject,
  read: (wire, _context, notes) => ({
    category: category(wire['category'], 'category', notes),
    symbol: requiredKey(wire['symbol'], 'symbol', notes),
  }),
  unknownParts: (wire) => Object.keys(wire).filter((name) => name !== 'category' && name !== 'symbol'),
}
