import { z } from 'zod'
import { categories, tradedCategories } from '../../market/category.js'
import { candleType, interval, plainText, stream, symbol } from './fields.js'

// Parameters arrive as text.
/** The year 10000: what is later is a mistake, and some of it more than the database can hold. */
const endOfTimeMs = Date.UTC(10_000, 0, 1) - 1
const number = (min: number, max: number) => z.coerce.number<number>().int().min(min).max(max)
const instrumentKey = { category: z.enum(categories).describe('Product line.'), symbol }
const limit = (max: number, usual: number) => number(1, max).default(usual).describe(`Most rows, at most ${max}.`)
const at = (what: string) => number(0, endOfTimeMs).describe(`${what} Unix time, milliseconds.`)

export const queries = {
  instruments: z.strictObject({
    search: plainText.max(100).default('').describe('Part of the symbol or base coin, whatever its case.'),
    category: z.enum(categories).exactOptional().describe('Only this product line.'),
    limit: limit(100, 20),
  }),
  instrument: z.strictObject({ ...instrumentKey, depth: limit(100, 15).describe('Levels on each side, at most 100.') }),
  candles: z.strictObject({
    category: z.enum(tradedCategories).describe('Product line.'),
    symbol,
    type: candleType.default('market'),
    interval: interval.default('1m'),
    before: at('Only candles that open before this moment. Default: now.').exactOptional(),
    limit: limit(1500, 500).describe('Most rows, at most 1500; fewer where they are rolled up from very many minutes.'),
  }),
  history: z.strictObject({
    ...instrumentKey,
    hours: number(1, 168).default(6).describe('How far back, at most 168.'),
  }),
  calendar: z.strictObject({
    search: plainText.max(100).default('').describe('Part of the symbol, whatever its case.'),
    stream: stream.exactOptional(),
    category: z.enum(categories).exactOptional().describe('Only this product line.'),
    symbol: symbol.exactOptional().describe('Exactly this instrument.'),
    days: number(1, 92).default(42).describe('How many days up to today or `to`, at most 92.'),
    to: at('The last day is the one that this moment is in. Default: now.').exactOptional(),
    limit: limit(100, 20),
    offset: number(0, 1_000_000).default(0).describe('How many series to leave out.'),
  }),
  coverage: z.strictObject({
    stream,
    ...instrumentKey,
    type: candleType.exactOptional(),
    interval: interval.exactOptional(),
    from: at('Begin.'),
    to: at('End, at most 31 days after the begin.'),
  }),
  events: z.strictObject({
    category: z.enum(tradedCategories).exactOptional().describe('With symbol: also events of this instrument.'),
    symbol: symbol.exactOptional(),
    type: candleType.default('market'),
    interval: interval.default('1m'),
  }),
  nothing: z.strictObject({}),
} as const
