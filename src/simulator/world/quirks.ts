import { z } from 'zod'
import { candleTypes } from '../../market/candle.js'
import { categories, tradedCategories } from '../../market/category.js'
import { operations } from '../../market/operation.js'
import { hourMs } from '../../market/values.js'
import { servedIntervals } from './intervals.js'

/** Candles that the service leaves out of its responses, or gives differently later on. */
const candleRange = z.strictObject({
  category: z.enum(tradedCategories).optional(),
  symbol: z.string().optional(),
  type: z.enum(candleTypes).optional(),
  interval: z.enum(servedIntervals as [string, ...string[]]).optional(),
  /** Half-open range of the candles' opening times. */
  from: z.number(),
  to: z.number(),
})
export type CandleRange = z.infer<typeof candleRange>

/** Fills that the service leaves out of its responses. */
const fillRange = z.strictObject({
  category: z.enum(categories).optional(),
  symbol: z.string().optional(),
  /** Half-open range of the fills' times. */
  from: z.number(),
  to: z.number(),
})

const share = z.number().min(0).max(1)
const ids = z.enum(['same', 'other'])

/**
 * Behavior of the live service that the specification omits or contradicts. The defaults were observed.
 */
export const quirksSchema = z.strictObject({
  /** HTTP status of responses with an error code. */
  errorHttpStatus: z.union([z.literal(200), z.literal(400)]).default(400),
  /** The order of the keys of the envelope changes from response to response. */
  envelopeOrderVaries: z.boolean().default(true),
  /** RPI books hold strings instead of numbers. */
  rpiBookAsStrings: z.boolean().default(false),
  /** Fills spell `YES` and `NO` in upper case: always, never, or some of them. */
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
  /** Spot rows have fields that only futures should have, and only futures rows have `isRwa`. */
  futuresFieldsOnSpot: z.boolean().default(true),
  /** Spellings of "not set": `""`, `"0"`, `"-1"`, `null` and absent fields, or only `""`. */
  notSetSpellings: z.enum(['mixed', 'empty']).default('mixed'),
  lowerCaseAreaSymbol: z.boolean().default(true),
  /** Some rows carry fields that the specification does not name. */
  unknownNewFields: z.boolean().default(true),
  /** `1D` candles open at 16:00 UTC. */
  dailyOpenAt16Utc: z.boolean().default(true),
  /** `history-candles` ignores startTime. */
  historyIgnoresStart: z.boolean().default(true),
  /** `history-candles` also has candles of the last 90 days. */
  historyHoldsRecent: z.boolean().default(true),
  /** `history-candles` may begin one interval earlier if endTime is not on a boundary. */
  historyRoundsUp: z.boolean().default(true),
  historyEndInclusive: z.boolean().default(false),
  candlesStartInclusive: z.boolean().default(false),
  candlesEndExclusive: z.boolean().default(false),
  /** How far back `candles` reaches, in days by interval. */
  candleDepthDays: z.record(z.string(), z.number().positive()).default({}),
  /** Code of the failure with which `candles` refuses a start that is older than it reaches; null if it gives no rows. */
  candlesRefuseOldStart: z.string().nullable().default(null),
  /** Time after a launch during which the candle operations respond with a body of zero bytes. */
  zeroByteCandlesAfterListingMs: z.number().min(0).default(30_000),
  /** `candles` and `history-candles` have more intervals than the specification lists. */
  furtherIntervals: z.boolean().default(true),
  /** Share of thinly traded instruments, besides tokens, whose candles leave out intervals without a trade. */
  silentInstruments: share.default(0.25),
  /** Candles have an eighth value, as in an older edition. */
  eighthCandleValue: z.boolean().default(false),
  /**
   * Candles that responses silently leave out, until the service's clock reaches `until`. `operation` limits this to
   * one of the two operations.
   */
  hiddenCandles: z
    .array(
      candleRange.extend({
        operation: z.enum(['candles', 'history-candles']).optional(),
        until: z.number().optional(),
      }),
    )
    .default([]),
  /** Largest delay until the newest fills are shown. Each response has another delay. */
  fillsBehindMs: z.number().int().min(0).default(0),
  /** Candles are shown as they were up to this much earlier, so closed ones still change. Each response differs. */
  candlesBehindMs: z.number().int().min(0).default(0),
  /** Fills that responses silently leave out, until the service's clock reaches `until`. */
  hiddenFills: z
    .array(fillRange.extend({ in: z.enum(['newest', 'history']).optional(), until: z.number().optional() }))
    .default([]),
  /** How a service responds that lacks the history of fills; null if it has the history. */
  noFillsHistory: z.enum(['code', 'notFound', 'html']).nullable().default(null),
  /** Time between changes of a future's index components. */
  termsChangeMs: z
    .number()
    .int()
    .min(1)
    .default(hourMs * 6),
  /** Operations that the service does not have. */
  lackingOperations: z.array(z.enum(operations)).default([]),
  /** The ids in the history of fills: those of the newest fills, or others. Categories may differ. */
  fillsHistoryIds: z.union([ids, z.partialRecord(z.enum(tradedCategories), ids)]).default('same'),
  /** The history of spot fills gives times in whole seconds, as its documentation says. */
  spotHistoryInSeconds: z.boolean().default(false),
  /** Share of the candles that are left out until `forMs` after their opening. */
  lateCandles: z
    .strictObject({ share, forMs: z.number().min(0) })
    .nullable()
    .default(null),
  /** Closed candles that have other values once the service's clock has reached `after`. */
  revisedCandles: z.array(candleRange.extend({ after: z.number() })).default([]),
  /** The first `responses` responses to the same parameters hold no rows. */
  emptyAtFirst: z
    .strictObject({ operations: z.array(z.enum(operations)), responses: z.number().int().min(1) })
    .nullable()
    .default(null),
  /** Categories that `operations` do not know any more; all operations if absent. */
  missingCategories: z
    .array(
      z.strictObject({
        category: z.enum(categories),
        operations: z.array(z.enum(operations)).optional(),
        code: z.enum(['40034', '40019']).default('40034'),
      }),
    )
    .default([]),
  /** Hours of the exchange that tokens' tickers follow. `always` makes every day a trading day of 24 hours. */
  stockExchangeHours: z.enum(['weekdays', 'always']).nullable().default(null),
  /** Bodies are compressed with brotli for clients that accept it. */
  brotli: z.boolean().default(true),
  /** Largest pages of operations, where they are smaller than specified. Larger limits are cut silently. */
  pageRows: z.partialRecord(z.enum(operations), z.number().int().min(1)).default({}),
  /** Operations whose pages hold the oldest rows of a request instead of the newest, oldest first. */
  oldestFirst: z.array(z.enum(operations)).default([]),
  /** Operations whose pages are in no order. */
  unordered: z.array(z.enum(operations)).default([]),
  /** Fills have times that are up to this much earlier than their order says, within their minute. */
  fillsEarlierMs: z.number().int().min(0).default(0),
  /** Ranges, each within a minute, whose fills all have the first millisecond of the range as their time. */
  crowdedFills: z.array(fillRange).default([]),
  /** How far the clock of each server is ahead. Each response comes from one of them, by chance. */
  serverClocksMs: z.array(z.number().int()).min(1).default([0]),
  /** Share of the fills whose price differs from response to response. */
  flappingFills: share.default(0),
  /** Settlements are given with times that are up to this much late. Each response has other times. */
  settlementsLateMs: z.number().int().min(0).default(0),
  /** Responses with liquidations name a next page. */
  liquidationsHaveCursor: z.boolean().default(true),
  /** Rates and liquidations that responses silently leave out, until the service's clock reaches `until`. */
  hiddenEvents: z
    .array(fillRange.extend({ operation: z.enum(['history-fund-rate', 'liquidations']), until: z.number().optional() }))
    .default([]),
  /** Operations that give an error with this code where others give an empty list. */
  errorsForEmpty: z
    .strictObject({ operations: z.array(z.enum(operations)), code: z.string() })
    .nullable()
    .default(null),
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
