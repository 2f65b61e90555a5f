import { z } from 'zod'
import { requirement } from '../../config/requirement.js'
import { candleTypes, intervals } from '../../market/candle.js'
import { categories, tradedCategories } from '../../market/category.js'
import { streamNames } from '../../market/stream.js'
import { oneLine } from '../../market/oneLine.js'

// Schemas that responses and parameters share.

export const time = (what: string) => z.int().describe(`${what} Unix time, milliseconds.`)
export const decimal = (what: string) => z.string().describe(`${what} Decimal text, exact.`)
export const count = (what: string) => z.int().nonnegative().describe(what)
export const orNull = <T extends z.ZodType>(schema: T) => schema.nullable().describe(schema.description ?? '')

export const category = z.enum(categories).describe('Product line.')
/** Text without control characters. No name has them, and the database cannot store some of them. */
const plainText = z
  .string({ error: ({ code }) => (code === 'invalid_type' ? 'must be text, given once' : undefined) })
  .refine((text) => !/[\p{Cc}\p{Cs}]/u.test(text), { error: 'must not hold control characters' })
export const symbol = plainText.min(1).max(200).describe('Instrument, as the service spells it.')
export const stream = z.enum(streamNames).describe('Stream, named as the table that holds it.')
export const candleType = z.enum(candleTypes).describe('What the candles are made of.')
export const interval = z.enum(intervals).describe('Length of a candle.')

// Query parameters arrive as text.
/** The end of the year 9999. Later times are mistakes, and some exceed the range of the database. */
const endOfTimeMs = Date.UTC(10_000, 0, 1) - 1
/** Number that arrives as text. `facts` are for the description of the API, because the library cannot derive them. */
const number = (min: number, max: number, facts: { default?: number; param?: { required: true } } = {}) =>
  z.coerce
    .number<number>()
    .int()
    .min(min)
    .max(max)
    .meta({ type: 'integer', minimum: min, maximum: max, ...facts })
const numberOr = (usual: number, min: number, max: number) => number(min, max, { default: usual }).default(usual)
const instrumentKey = { category, symbol }
const limit = (max: number, usual: number) => numberOr(usual, 1, max).describe(`Most rows, at most ${max}.`)
const at = (what: string) => number(0, endOfTimeMs).describe(`${what} Unix time, milliseconds.`)
const requiredAt = (what: string) =>
  number(0, endOfTimeMs, { param: { required: true } }).describe(`${what} Unix time, milliseconds.`)

const maxCurves = 60
const key = `(${categories.join('|')}):[^,]{1,200}`
const keyList = new RegExp(`^${key}(,${key}){0,${maxCurves - 1}}$`)

export const queries = {
  instruments: z.strictObject({
    search: plainText.max(100).default('').describe('Part of the symbol or base coin, whatever its case.'),
    category: z.enum(categories).optional().describe('Only this product line.'),
    limit: limit(100, 20),
  }),
  instrument: z.strictObject({
    ...instrumentKey,
    depth: limit(100, 15).describe('Levels on each side, at most 100.'),
    at: at('The newest rows of the ten minutes before this moment. Default: of now.').optional(),
  }),
  curves: z.strictObject({
    keys: plainText
      .regex(keyList, { error: `must be at most ${maxCurves} of CATEGORY:SYMBOL, separated by commas` })
      .describe(`At most ${maxCurves} instruments: CATEGORY:SYMBOL, separated by commas.`),
  }),
  candles: z.strictObject({
    category: z.enum(tradedCategories).describe('Product line.'),
    symbol,
    type: candleType.default('market'),
    interval: interval.default('1m'),
    before: at('Only candles that open before this moment. Default: now.').optional(),
    limit: limit(1500, 500).describe('Most rows, at most 1500; fewer where they are rolled up from very many minutes.'),
  }),
  history: z.strictObject({
    ...instrumentKey,
    hours: numberOr(6, 1, 168).describe('How far back, at most 168.'),
  }),
  calendar: z.strictObject({
    search: plainText.max(100).default('').describe('Part of the symbol, whatever its case.'),
    stream: stream.optional(),
    category: z.enum(categories).optional().describe('Only this product line.'),
    symbol: symbol.optional().describe('Exactly this instrument.'),
    days: numberOr(42, 1, 92).describe('How many days up to today or `to`, at most 92.'),
    to: at('The last day is the one that this moment is in. Default: now.').optional(),
    limit: limit(100, 20),
    offset: numberOr(0, 0, 1_000_000).describe('How many series to leave out.'),
  }),
  coverage: z.strictObject({
    stream,
    ...instrumentKey,
    type: candleType.optional(),
    interval: interval.optional(),
    from: requiredAt('Begin.'),
    to: requiredAt('End, at most 31 days after the begin.'),
  }),
  events: z.strictObject({
    category: z.enum(tradedCategories).optional().describe('With symbol: also events of this instrument.'),
    symbol: symbol.optional(),
    type: candleType.default('market'),
    interval: interval.default('1m'),
  }),
  nothing: z.strictObject({}),
} as const

/** Returns one line that names every wrong parameter. */
export function wrongParameters(issues: readonly z.core.$ZodIssue[], given: object): string {
  // Names and values come from the request and may hold line ends.
  return oneLine(issues.map((issue) => describe(issue, given)).join('; '))
}

function describe(issue: z.core.$ZodIssue, given: object): string {
  if (issue.code === 'unrecognized_keys') return `${issue.keys.join(', ')}: no such parameter; see /api`
  const name = issue.path.join('.')
  return `${name}: ${name in given ? '' : 'is missing; it '}${requirement(issue)}`
}
