import { z } from 'zod'
import { candleTypes } from '../../market/candle.js'
import { categories, tradedCategories } from '../../market/category.js'
import { operations } from '../../market/stream.js'
import { hourMs } from '../../market/values.js'
import { servedIntervals } from './intervals.js'

/** Candles that the service leaves out of its responses, or gives differently later on. */
const candleRange = z.strictObject({
  category: z.enum(tradedCategories).optional(),
  symbol: z.string().optional(),
  type: z.enum(candleTypes).optional(),
  interval: z.enum(servedIntervals as [string, ...string[]]).optional(),
  /** Opening times, half-open. */
  from: z.number(),
  to: z.number(),
})
export type CandleRange = z.infer<typeof candleRange>

/** Fills that the service leaves out of its responses. */
const fillRange = z.strictObject({
  category: z.enum(categories).optional(),
  symbol: z.string().optional(),
  /** Times of the fills, half-open. */
  from: z.number(),
  to: z.number(),
})

const share = z.number().min(0).max(1)

/**
 * Behavior of the live service that the specification omits or contradicts. The defaults were observed.
 */
export const quirksSchema = z.strictObject({
  /** HTTP status of responses with an error code. */
  errorHttpStatus: z.union([z.literal(200), z.literal(400)]).default(400),
  /** The order of the keys of the envelope changes from response to response. */
  envelopeOrderVaries: z.boolean().default(true),
  /** RPI books carry strings where they otherwise carry numbers. */
  rpiBookAsStrings: z.boolean().default(false),
  /** `YES` and `NO` in fills: always, never, or both. */
  isRpiUpperCase: z.union([z.boolean(), z.literal('mixed')]).default('mixed'),
  /** Share of the fills without `execLinkId`, and without `isRPI`. */
  missingExecLinkId: share.default(0.25),
  missingIsRpi: share.default(0.05),
  /** Share of the ticker rows whose `ts` is "0". */
  tickerTsZero: share.default(0.01),
  /** Share of the instruments whose book is always empty. */
  emptyBooks: share.default(0.01),
  /** `ts` of a book may be later than the request by up to this much (fixed for each instrument). */
  bookTsAheadMs: z.number().int().min(0).default(250),
  /** Futures-only fields on spot rows, and `isRwa` on futures rows only. */
  futuresFieldsOnSpot: z.boolean().default(true),
  /** `""`, `"0"`, `"-1"`, `null` and absent, instead of `""` alone. */
  notSetSpellings: z.enum(['mixed', 'empty']).default('mixed'),
  lowerCaseAreaSymbol: z.boolean().default(true),
  /** Some rows carry fields that the specification does not name. */
  unknownNewFields: z.boolean().default(true),
  /** `1D` candles open at 16:00 UTC. */
  dailyOpenAt16Utc: z.boolean().default(true),
  /** `history-candles` pays no attention to startTime. */
  historyIgnoresStart: z.boolean().default(true),
  /** `history-candles` has candles of the last 90 days, too. */
  historyHoldsRecent: z.boolean().default(true),
  /** `history-candles` may begin one interval earlier when endTime is not on a boundary. */
  historyRoundsUp: z.boolean().default(true),
  historyEndInclusive: z.boolean().default(false),
  candlesStartInclusive: z.boolean().default(false),
  candlesEndExclusive: z.boolean().default(false),
  /** How far back `candles` reaches, in days by interval. */
  candleDepthDays: z.record(z.string(), z.number().positive()).default({}),
  /** For this long after a launch the candle operations response with a body of zero bytes. */
  zeroByteCandlesAfterListingMs: z.number().min(0).default(30_000),
  /** `candles` and `history-candles` know more intervals than the specification lists. */
  furtherIntervals: z.boolean().default(true),
  /** Share of the thinly traded instruments, besides the tokens, whose candles leave out the intervals without a trade. */
  silentInstruments: share.default(0.25),
  /** Candles have an eighth value, as in an older edition. */
  eighthCandleValue: z.boolean().default(false),
  /**
   * Candles left out of responses without a word; `operation` limits it to one of the two operations. Once the service's
   * clock has reached `until` they are there.
   */
  hiddenCandles: z
    .array(
      candleRange.extend({
        operation: z.enum(['candles', 'history-candles']).optional(),
        until: z.number().optional(),
      }),
    )
    .default([]),
  /** The newest fills are shown later than they happened by up to this much, another time in each response. */
  fillsBehindMs: z.number().int().min(0).default(0),
  /** Candles are shown as they were up to so much earlier, another time in each response: closed ones change until then. */
  candlesBehindMs: z.number().int().min(0).default(0),
  /** Fills left out of responses, the same way as candles. */
  hiddenFills: z
    .array(fillRange.extend({ in: z.enum(['newest', 'history']).optional(), until: z.number().optional() }))
    .default([]),
  /** How the history of fills is missing where a service lacks it; null where it is there. */
  noFillsHistory: z.enum(['code', 'notFound', 'html']).nullable().default(null),
  /** Components of indexes, tiers of positions and limits of open interest of a future change so often. */
  termsChangeMs: z
    .number()
    .int()
    .min(1)
    .default(hourMs * 6),
  /** Operations that the service does not have. */
  lackingOperations: z.array(z.enum(operations)).default([]),
  /** How far back the history of fills reaches. */
  fillsHistoryDays: z.number().positive().default(90),
  /** The ids in the history of fills: those of the newest fills, or others. */
  fillsHistoryIds: z.enum(['same', 'other']).default('same'),
  /** `Buy` and `Sell` in the history of fills: always, never, or both. */
  capitalisedSides: z.union([z.boolean(), z.literal('mixed')]).default('mixed'),
  /** The history of spot fills gives times in whole seconds, as its documentation says. */
  spotHistoryInSeconds: z.boolean().default(false),
  /** A share of the candles, drawn one by one, is left out until so long after their opening. */
  lateCandles: z
    .strictObject({ share, forMs: z.number().min(0) })
    .nullable()
    .default(null),
  /** Closed candles that response other values once the service's clock has reached `after`. */
  revisedCandles: z.array(candleRange.extend({ after: z.number() })).default([]),
  /** The first `responses` responses to the same parameters hold no rows. */
  emptyAtFirst: z
    .strictObject({ operations: z.array(z.enum(operations)), responses: z.number().int().min(1) })
    .nullable()
    .default(null),
  /** Categories that the operations (all, when absent) do not know any more. */
  missingCategories: z
    .array(
      z.strictObject({
        category: z.enum(categories),
        operations: z.array(z.enum(operations)).optional(),
        code: z.enum(['40034', '40019']).default('40034'),
      }),
    )
    .default([]),
  /** When the tape that the tickers of tokens follow rises: `always` makes every day a trading day of 24 hours. */
  stockExchangeHours: z.enum(['weekdays', 'always']).nullable().default(null),
  /** Bodies are compressed with brotli for those who accept it. */
  brotli: z.boolean().default(true),
  /** One row of each page cannot be understood. */
  brokenRows: z
    .strictObject({
      operations: z.array(z.enum(operations)),
      kind: z.enum(['type', 'missing', 'nonsense']).default('nonsense'),
    })
    .nullable()
    .default(null),
})
export type Quirks = z.infer<typeof quirksSchema>
