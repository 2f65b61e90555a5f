import type { CandlePayload } from '../exchange/payloads.js'
import { type Candle, type CandleSeries, closeTime } from '../market/candle.js'
import type { AnswerContext } from './context.js'

/**
 * A candle is final only when it was read at least `settleMs` after its close by the service's own clock:
 * the service may still change it in the first moments, and our clock may be wrong.
 */
export function normalizeCandle(
  payload: CandlePayload,
  series: CandleSeries,
  answer: AnswerContext,
  settleMs: number,
): Candle {
  return {
    category: series.category,
    symbol: series.symbol,
    type: series.type,
    interval: series.interval,
    openTime: payload.openTime,
    open: payload.open,
    high: payload.high,
    low: payload.low,
    close: payload.close,
    baseVolume: payload.baseVolume,
    quoteTurnover: payload.quoteTurnover,
    isClosed: answer.requestTime >= closeTime(payload.openTime, series.interval) + settleMs,
  }
}
