import { categories, type Category, tradedCategories } from '../../market/category.js'
import {
  type Instrument,
  type InstrumentField,
  type InstrumentFieldKind,
  instrumentFields,
} from '../../market/instrument.js'
import type { RpiSymbol } from '../../market/rows.js'
import {
  checkRepeated,
  countAmount,
  type Field,
  limitAmount,
  optionalBigint,
  optionalBoolean,
  optionalDecimal,
  optionalText,
  optionalTime,
  requiredSymbol,
  requiredWord,
} from './fields.js'
import { anObject, type Format, noExtra } from './rows.js'

interface InstrumentQuery {
  readonly category: Category
}

/**
 * Fields that are read in another way than their kind. Most numbers of an instrument cannot be negative: -1 means "not
 * set", and 0 is a value. But a fee can be a rebate, and a largest order of 0 means that there is no limit.
 */
const exceptions: Partial<Record<InstrumentField, Field<unknown>>> = {
  makerFeeRate: optionalDecimal,
  takerFeeRate: optionalDecimal,
  maxOrderQty: limitAmount,
}
const fieldOfKind: Readonly<Record<InstrumentFieldKind, Field<unknown>>> = {
  text: optionalText,
  boolean: optionalBoolean,
  integer: optionalBigint,
  decimal: countAmount,
  time: optionalTime,
}
const fields = (Object.keys(instrumentFields) as InstrumentField[]).map(
  (name) => [name, exceptions[name] ?? fieldOfKind[instrumentFields[name]]] as const,
)
const category = requiredWord(categories)

export const instrumentFormat: Format<InstrumentQuery, Instrument> = {
  shape: anObject,
  fields: new Set(['category', 'symbol', ...Object.keys(instrumentFields)]),
  read(wire, { query }, notes) {
    const row: Record<string, unknown> = {
      category: category(wire['category'], 'category', notes),
      symbol: requiredSymbol(wire['symbol'], 'symbol', notes),
      extra: noExtra,
    }
    // A field that cannot be understood is left out, so that the instrument is recorded all the same.
    for (const [name, field] of fields) row[name] = field(wire[name], name, notes) ?? null
    // Each field was read as the kind that `instrumentFields` declares.
    const instrument = row as Instrument
    if (notes.problems.length === 0) checkRepeated('category', instrument.category, query.category, notes)
    return instrument
  },
}

const tradedCategory = requiredWord(tradedCategories)

export const rpiSymbolFormat: Format<object, RpiSymbol> = {
  shape: anObject,
  read: (wire, _context, notes) => ({
    category: tradedCategory(wire['category'], 'category', notes),
    symbol: requiredSymbol(wire['symbol'], 'symbol', notes),
  }),
}
