import type { InstrumentPayload } from '../exchange/payloads.js'
import type { Instrument } from '../market/instrument.js'

export function normalizeInstrument(payload: InstrumentPayload): Instrument {
  return payload
}
