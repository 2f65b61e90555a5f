import { tradedCategories, type TradedCategory } from '../../market/category.js'
import { tickerFields } from '../../market/stream.js'
import type { OrderBook, RpiOrderBook, Ticker } from '../../market/rows.js'
import {
  aDecimal,
  anAmount,
  checkRepeated,
  type Notes,
  optionalAmount as amount,
  optionalDecimal as decimal,
  optionalText,
  optionalTime,
  problemText,
  readAmount,
  readDecimal,
  requiredSymbol,
  requiredTime,
  requiredWord,
} from './fields.js'
import { anObject, type Format, noExtra, type RowContext, type WireObject } from './rows.js'
import type { Decimal } from '../../market/values.js'

interface TickerQuery {
  readonly category: TradedCategory
}

const category = requiredWord(tradedCategories)

export const tickerFormat: Format<TickerQuery, Ticker> = {
  shape: anObject,
  fields: new Set(['category', 'symbol', 'ts', ...Object.keys(tickerFields)]),
  // The fields are written out for speed, because thousands of tickers come every few seconds.
  read(wire, { query, ownTime, receivedAt }, notes) {
    const ticker: Ticker = {
      category: query.category,
      symbol: requiredSymbol(wire['symbol'], 'symbol', notes),
      // Without a time of its own, a ticker takes that of the response, which may be a second or two later.
      ts: optionalTime(wire['ts'], 'ts', notes) ?? ownTime,
      lastPrice: decimal(wire['lastPrice'], 'lastPrice', notes),
      bid1Price: decimal(wire['bid1Price'], 'bid1Price', notes),
      bid1Size: amount(wire['bid1Size'], 'bid1Size', notes),
      ask1Price: decimal(wire['ask1Price'], 'ask1Price', notes),
      ask1Size: amount(wire['ask1Size'], 'ask1Size', notes),
      openPrice24h: decimal(wire['openPrice24h'], 'openPrice24h', notes),
      highPrice24h: decimal(wire['highPrice24h'], 'highPrice24h', notes),
      lowPrice24h: decimal(wire['lowPrice24h'], 'lowPrice24h', notes),
      volume24h: amount(wire['volume24h'], 'volume24h', notes),
      turnover24h: amount(wire['turnover24h'], 'turnover24h', notes),
      price24hPcnt: decimal(wire['price24hPcnt'], 'price24hPcnt', notes),
      indexPrice: decimal(wire['indexPrice'], 'indexPrice', notes),
      markPrice: decimal(wire['markPrice'], 'markPrice', notes),
      fundingRate: decimal(wire['fundingRate'], 'fundingRate', notes),
      openInterest: amount(wire['openInterest'], 'openInterest', notes),
      deliveryStartTime: optionalTime(wire['deliveryStartTime'], 'deliveryStartTime', notes),
      deliveryTime: optionalTime(wire['deliveryTime'], 'deliveryTime', notes),
      deliveryStatus: optionalText(wire['deliveryStatus'], 'deliveryStatus', notes),
      platformTurnover24h: amount(wire['platformTurnover24h'], 'platformTurnover24h', notes),
      receivedAt,
      extra: noExtra,
    }
    const named = wire['category'] ?? ''
    if (notes.problems.length === 0 && named !== '')
      checkRepeated('category', category(named, 'category', notes), query.category, notes)
    return ticker
  },
  timeOf: ({ ts }) => ts,
}

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
