import type { FillPayload } from '../exchange/payloads.js'
import type { InstrumentKey } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import type { AnswerContext } from './context.js'

export function normalizeFill(payload: FillPayload, key: InstrumentKey, answer: AnswerContext): Fill {
  return { ...payload, category: key.category, symbol: key.symbol, receivedAt: answer.receivedAt }
}
