import { z } from 'zod'
import type { Decimal } from '../market/values.js'
import { maxLevels } from './bounds.js'
import { readDecimal, refuse, requiredTime } from './fields.js'
import type { BookSide, OrderBookPayload, RpiBookSide, RpiOrderBookPayload } from './payloads.js'
import type { RowSchema } from './rows.js'

/** A book has up to 2,000 levels: a loop over them is several times as fast as a zod schema of each entry. */
function levels(width: 2 | 3) {
  return z.transform((value: unknown, payload: z.core.ParsePayload): Decimal[][] => {
    if (!Array.isArray(value)) return refuse(payload, 'an array of levels', value)
    if (value.length > maxLevels) return refuse(payload, `at most ${maxLevels} levels`, `${value.length} levels`)
    const columns: Decimal[][] = Array.from({ length: width }, () => [])
    for (const [index, level] of (value as unknown[]).entries()) {
      if (!Array.isArray(level) || level.length < width)
        return refuse(payload, `${width} numbers in level ${index}`, level)
      for (const [position, column] of columns.entries()) {
        const number = readDecimal(level[position])
        if (number === undefined) return refuse(payload, `a decimal number in level ${index}[${position}]`, level)
        column.push(number)
      }
    }
    return columns
  })
}

const plain = ([prices = [], sizes = []]: Decimal[][]): BookSide => ({ prices, sizes })
const rpi = ([prices = [], sizes = [], rpiSizes = []]: Decimal[][]): RpiBookSide => ({ prices, sizes, rpiSizes })

const orderBook = z
  .object({ a: levels(2), b: levels(2), ts: requiredTime })
  .transform(({ a, b, ts }) => ({ ts, asks: plain(a), bids: plain(b) }))
const rpiOrderBook = z
  .object({ a: levels(3), b: levels(3), ts: requiredTime })
  .transform(({ a, b, ts }) => ({ ts, asks: rpi(a), bids: rpi(b) }))

const bookFields: ReadonlySet<string> = new Set(['a', 'b', 'ts'])

/** Looks at the best levels only: what is new in the format is in all of them. */
function unknownPositions(width: number) {
  return (value: unknown): string[] => {
    const { a, b } = value as { a: unknown[][]; b: unknown[][] }
    return [...(isWider(a[0], width) ? [`a[][${width}]`] : []), ...(isWider(b[0], width) ? [`b[][${width}]`] : [])]
  }
}
const isWider = (level: unknown[] | undefined, width: number) => level !== undefined && level.length > width

// `extra` is filled in by the row reader, which knows the fields that the schema left over.
export const orderBookRow: RowSchema<OrderBookPayload> = {
  schema: orderBook as unknown as z.ZodType<OrderBookPayload>,
  fields: bookFields,
  timeOf: ({ ts }) => ts,
  unknownPositions: unknownPositions(2),
}
export const rpiOrderBookRow: RowSchema<RpiOrderBookPayload> = {
  schema: rpiOrderBook as unknown as z.ZodType<RpiOrderBookPayload>,
  fields: bookFields,
  timeOf: ({ ts }) => ts,
  unknownPositions: unknownPositions(3),
}
