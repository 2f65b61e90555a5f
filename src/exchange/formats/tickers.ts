import { tradedCategories, type TradedCategory } from '../../market/category.js'
import { tickerFields } from '../../market/stream.js'
import type { Ticker } from '../../market/rows.js'
import {
  checkRepeated,
  type Notes,
  optionalAmount as amount,
  optionalDecimal as decimal,
  optionalText,
  optionalTime,
  requiredKey,
  requiredWord,
} from './fields.js'
import { anObject, type Format, noExtra, type WireObject } from './rows.js'

interface TickerQuery {
  readonly category: TradedCategory
  readonly symbol?: string
}

const category = requiredWord(tradedCategories)

export const tickerFormat: Format<TickerQuery, Ticker> = {
  shape: anObject,
  fields: new Set(['category', 'symbol', 'ts', ...Object.keys(tickerFields)]),
  // The fields are written out for speed, because thousands of tickers come every few seconds.
  read(wire, { query, ownTime, receivedAt }, notes) {
    const ticker: Ticker = {
      category: query.category,
      symbol: requiredKey(wire['symbol'], 'symbol', notes),
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
    checkIdentity(wire, ticker.symbol, query, notes)
    return ticker
  },
  timeOf: ({ ts }) => ts,
}

/** Checks that a ticker names the requested symbol and category. It may leave out its category. */
function checkIdentity(wire: WireObject, symbol: string, query: TickerQuery, notes: Notes): void {
  const named = wire['category'] ?? ''
  if (notes.problems.length > 0) return
  if (named !== '') checkRepeated('category', category(named, 'category', notes), query.category, notes)
  checkRepeated('symbol', symbol, query.symbol, notes)
}
