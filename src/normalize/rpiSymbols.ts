import type { RpiSymbolPayload } from '../exchange/payloads.js'
import type { RpiSymbol } from '../market/orderBook.js'

export function normalizeRpiSymbol(payload: RpiSymbolPayload): RpiSymbol {
  return payload
}
