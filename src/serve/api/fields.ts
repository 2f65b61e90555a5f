import { z } from 'zod'
import { candleTypes, intervals } from '../../market/candle.js'
import { categories } from '../../market/category.js'
import { streamNames } from '../../market/stream.js'

// What responses and parameters are made of.

export const time = (what: string) => z.int().describe(`${what} Unix time, milliseconds.`)
export const decimal = (what: string) => z.string().describe(`${what} Decimal text, exact.`)
export const count = (what: string) => z.int().nonnegative().describe(what)
export const orNull = <T extends z.ZodType>(schema: T) => schema.nullable().describe(schema.description ?? '')

export const category = z.enum(categories).describe('Product line.')
/** Characters that no name has, and that the database cannot hold. */
export const plainText = z.string().regex(/^[^\p{Cc}\p{Cs}]*$/u, { error: 'must not hold control characters' })
export const symbol = plainText.min(1).max(200).describe('Instrument, as the service spells it.')
export const stream = z.enum(streamNames).describe('Stream, named as the table that holds it.')
export const candleType = z.enum(candleTypes).describe('What the candles are made of.')
export const interval = z.enum(intervals).describe('Length of a candle.')
