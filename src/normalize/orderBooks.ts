import type { OrderBookPayload, RpiOrderBookPayload } from '../exchange/payloads.js'
import type { TradedCategory } from '../market/category.js'
import type { OrderBook, RpiOrderBook } from '../market/orderBook.js'
import type { AnswerContext } from './context.js'

interface BookKey {
  readonly category: TradedCategory
  readonly symbol: string
}

export function normalizeOrderBook(payload: OrderBookPayload, key: BookKey, answer: AnswerContext): OrderBook {
  return {
    category: key.category,
    symbol: key.symbol,
    ts: payload.ts,
    bidPrices: payload.bids.prices,
    bidSizes: payload.bids.sizes,
    askPrices: payload.asks.prices,
    askSizes: payload.asks.sizes,
    receivedAt: answer.receivedAt,
    extra: payload.extra,
  }
}

export function normalizeRpiOrderBook(payload: RpiOrderBookPayload, key: BookKey, answer: AnswerContext): RpiOrderBook {
  return {
    ...normalizeOrderBook(payload, key, answer),
    bidRpiSizes: payload.bids.rpiSizes,
    askRpiSizes: payload.asks.rpiSizes,
  }
}
