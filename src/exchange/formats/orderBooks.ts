import type { TradedCategory } from '../../market/category.js'
import type { OrderBook, RpiOrderBook } from '../../market/rows.js'
import type { Decimal } from '../../market/values.js'
import { aDecimal, anAmount, type Notes, problemText, readAmount, readDecimal, requiredTime } from './fields.js'
import { anObject, type Format, noExtra, type RowContext, type WireObject } from './rows.js'

/** Largest number of levels on one side of a book. */
const maxLevels = 10_000

interface BookQuery {
  readonly category: TradedCategory
  readonly symbol: string
  /** Levels on each side, 1 to 1000. */
  readonly limit: number
}

export const orderBookFormat: Format<BookQuery, OrderBook> = {
  shape: anObject,
  fields: new Set(['a', 'b', 'ts']),
  read(wire, context, notes) {
    const asks = readLevels(wire, 'a', 2, notes)
    const bids = readLevels(wire, 'b', 2, notes)
    return bookOf(wire, asks, bids, context, notes)
  },
  timeOf: ({ ts }) => ts,
}

/** The levels of an RPI book have the visible (non-RPI) size second and the RPI size third. */
export const rpiOrderBookFormat: Format<BookQuery, RpiOrderBook> = {
  ...orderBookFormat,
  read(wire, context, notes) {
    const asks = readLevels(wire, 'a', 3, notes)
    const bids = readLevels(wire, 'b', 3, notes)
    return {
      bidRpiSizes: bids[2] ?? [],
      askRpiSizes: asks[2] ?? [],
      ...bookOf(wire, asks, bids, context, notes),
    }
  },
}

function bookOf(
  wire: WireObject,
  [askPrices = [], askSizes = []]: Decimal[][],
  [bidPrices = [], bidSizes = []]: Decimal[][],
  { query, receivedAt }: RowContext<BookQuery>,
  notes: Notes,
): OrderBook {
  return {
    category: query.category,
    symbol: query.symbol,
    ts: requiredTime(wire['ts'], 'ts', notes),
    bidPrices,
    bidSizes,
    askPrices,
    askSizes,
    receivedAt,
    extra: noExtra,
  }
}

/** Returns the columns of one side of a book, prices first; no column if a level cannot be understood. */
function readLevels(wire: WireObject, name: 'a' | 'b', width: 2 | 3, { problems }: Notes): Decimal[][] {
  const refuse = (what: string, value: unknown): Decimal[][] => {
    problems.push(problemText(name, what, value))
    return []
  }
  const levels = wire[name]
  if (!Array.isArray(levels)) return refuse('an array of levels', levels)
  if (levels.length > maxLevels) return refuse(`at most ${maxLevels} levels`, `${levels.length} levels`)
  const prices: Decimal[] = []
  const sizes: Decimal[] = []
  const rpiSizes: Decimal[] = []
  for (let index = 0; index < levels.length; index++) {
    const level: unknown = levels[index]
    if (!Array.isArray(level) || level.length < width) return refuse(`${width} numbers in level ${index}`, level)
    const price = readDecimal(level[0])
    const size = readAmount(level[1])
    const rpiSize = width === 3 ? readAmount(level[2]) : ''
    if (price === undefined || size === undefined || rpiSize === undefined) {
      const position = [price, size, rpiSize].indexOf(undefined)
      return refuse(`${position === 0 ? aDecimal : anAmount} in level ${index}[${position}]`, level)
    }
    prices.push(price)
    sizes.push(size)
    if (width === 3) rpiSizes.push(rpiSize)
  }
  return width === 3 ? [prices, sizes, rpiSizes] : [prices, sizes]
}
