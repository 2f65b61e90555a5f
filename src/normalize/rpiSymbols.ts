import type { RpiSymbolPayload } from '../exchange/payloads.js'
import type { RpiSymbol } from '../market/rpiSymbol.js'

export function normalizeRpiSymbol(payload: RpiSymbolPayload): RpiSymbol {
  return payload
}
