import { type Quirks, quirksSchema } from '../../src/simulator/world/quirks.js'

export const observedQuirks: Quirks = quirksSchema.parse({})

/** No quirks: what the specification says, and no more. */
export const plainQuirks: Quirks = quirksSchema.parse({
  envelopeOrderVaries: false,
  isRpiUpperCase: false,
  missingExecLinkId: 0,
  missingIsRpi: 0,
  tickerTsZero: 0,
  emptyBooks: 0,
  bookTsAheadMs: 0,
  futuresFieldsOnSpot: false,
  notSetSpellings: 'empty',
  lowerCaseAreaSymbol: false,
  unknownNewFields: false,
  dailyOpenAt16Utc: false,
  historyIgnoresStart: false,
  historyRoundsUp: false,
  zeroByteCandlesAfterListingMs: 0,
  silentInstruments: 0,
  furtherIntervals: false,
  brotli: false,
})
