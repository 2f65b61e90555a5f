import type { TickerPayload } from '../exchange/payloads.js'
import type { TradedCategory } from '../market/category.js'
import type { Ticker } from '../market/ticker.js'
import type { AnswerContext } from './context.js'

/** A ticker without a generation time takes the service's answer time, which lags it by a second or two. */
export function normalizeTicker(payload: TickerPayload, category: TradedCategory, answer: AnswerContext): Ticker {
  return { ...payload, category, ts: payload.ts ?? answer.requestTime, receivedAt: answer.receivedAt }
}
