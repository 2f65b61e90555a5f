import { type TradedCategory, tradedCategories } from '../../market/category.js'
import { type Ticker, tickerFields } from '../../market/ticker.js'
import {
  optionalDecimal as decimal,
  optionalText,
  optionalTime,
  optionalWord,
  repeated,
  requiredKey,
} from './fields.js'
import { anObject, type Format, noExtra, type WireObject } from './format.js'

export interface TickerQuery {
  readonly category: TradedCategory
  readonly symbol?: string
}

const category = optionalWord(tradedCategories)

export const tickerFormat: Format<TickerQuery, Ticker> = {
  shape: anObject,
  fields: new Set(['category', 'symbol', 'ts', ...Object.keys(tickerFields)]),
  // Written out, because thousands come every few seconds.
  read(wire, { query, requestTime, receivedAt }, problems) {
    const ticker: Ticker = {
      category: query.category,
      symbol: requiredKey(wire['symbol'], 'symbol', problems),
      // One without a generation time takes that of the response, which it lags by a second or two.
      ts: optionalTime(wire['ts'], 'ts', problems) ?? requestTime,
      lastPrice: decimal(wire['lastPrice'], 'lastPrice', problems),
      bid1Price: decimal(wire['bid1Price'], 'bid1Price', problems),
      bid1Size: decimal(wire['bid1Size'], 'bid1Size', problems),
      ask1Price: decimal(wire['ask1Price'], 'ask1Price', problems),
      ask1Size: decimal(wire['ask1Size'], 'ask1Size', problems),
      openPrice24h: decimal(wire['openPrice24h'], 'openPrice24h', problems),
      highPrice24h: decimal(wire['highPrice24h'], 'highPrice24h', problems),
      lowPrice24h: decimal(wire['lowPrice24h'], 'lowPrice24h', problems),
      volume24h: decimal(wire['volume24h'], 'volume24h', problems),
      turnover24h: decimal(wire['turnover24h'], 'turnover24h', problems),
      price24hPcnt: decimal(wire['price24hPcnt'], 'price24hPcnt', problems),
      indexPrice: decimal(wire['indexPrice'], 'indexPrice', problems),
      markPrice: decimal(wire['markPrice'], 'markPrice', problems),
      fundingRate: decimal(wire['fundingRate'], 'fundingRate', problems),
      openInterest: decimal(wire['openInterest'], 'openInterest', problems),
      deliveryStartTime: optionalTime(wire['deliveryStartTime'], 'deliveryStartTime', problems),
      deliveryTime: optionalTime(wire['deliveryTime'], 'deliveryTime', problems),
      deliveryStatus: optionalText(wire['deliveryStatus'], 'deliveryStatus', problems),
      platformTurnover24h: decimal(wire['platformTurnover24h'], 'platformTurnover24h', problems),
      receivedAt,
      extra: noExtra,
    }
    repeatsQuery(wire, ticker.symbol, query, problems)
    return ticker
  },
  timeOf: ({ ts }) => ts,
}

/** A ticker names what it is of, as the request did. */
function repeatsQuery(wire: WireObject, symbol: string, query: TickerQuery, problems: string[]): void {
  const named = category(wire['category'], 'category', problems)
  if (problems.length > 0) return
  repeated('category', named, query.category, problems)
  repeated('symbol', symbol, query.symbol, problems)
}
