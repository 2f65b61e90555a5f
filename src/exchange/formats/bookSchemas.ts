import type { Decimal } from '../../market/values.js'
import { maxLevels } from '../response/bounds.js'
import { readDecimal, refusalText, refused, requiredTime } from './fields.js'
import type { BookSide, OrderBookPayload, RpiBookSide, RpiOrderBookPayload } from '../payloads.js'
import { noExtra, Refusal, type RowReader } from './rowReader.js'
import type { RowSchema } from './rows.js'

/** The columns of one side of a book, prices first; or why it cannot be understood. */
function readLevels(value: unknown, width: 2 | 3): Decimal[][] | string {
  if (!Array.isArray(value)) return refusalText('an array of levels', value)
  if (value.length > maxLevels) return refusalText(`at most ${maxLevels} levels`, `${value.length} levels`)
  const columns: Decimal[][] = Array.from({ length: width }, () => [])
  for (const [index, level] of (value as unknown[]).entries()) {
    if (!Array.isArray(level) || level.length < width) return refusalText(`${width} numbers in level ${index}`, level)
    for (const [position, column] of columns.entries()) {
      const number = readDecimal(level[position])
      if (number === undefined) return refusalText(`a decimal number in level ${index}[${position}]`, level)
      column.push(number)
    }
  }
  return columns
}

function bookReader<Side, Book>(
  width: 2 | 3,
  side: (columns: Decimal[][]) => Side,
  book: (ts: number, asks: Side, bids: Side) => Book,
): RowReader<Book> {
  return (value) => {
    const { a, b, ts } = value as Readonly<Record<string, unknown>>
    const asks = readLevels(a, width)
    const bids = readLevels(b, width)
    const time = requiredTime.read(ts)
    if (typeof asks !== 'string' && typeof bids !== 'string' && time !== refused)
      return book(time, side(asks), side(bids))
    return new Refusal([
      ...(typeof asks === 'string' ? [`a: ${asks}`] : []),
      ...(typeof bids === 'string' ? [`b: ${bids}`] : []),
      ...(time === refused ? [`ts: ${refusalText(requiredTime.what, ts)}`] : []),
    ])
  }
}

const plain = ([prices = [], sizes = []]: Decimal[][]): BookSide => ({ prices, sizes })
const rpi = ([prices = [], sizes = [], rpiSizes = []]: Decimal[][]): RpiBookSide => ({ prices, sizes, rpiSizes })

const bookFields: ReadonlySet<string> = new Set(['a', 'b', 'ts'])

/** Looks at the best levels only: what is new in the format is in all of them. */
function unknownPositions(width: number) {
  return (value: unknown): string[] => {
    const { a, b } = value as { a: unknown[][]; b: unknown[][] }
    return [...(isWider(a[0], width) ? [`a[][${width}]`] : []), ...(isWider(b[0], width) ? [`b[][${width}]`] : [])]
  }
}
const isWider = (level: unknown[] | undefined, width: number) => level !== undefined && level.length > width

export const orderBookRow: RowSchema<OrderBookPayload> = {
  read: bookReader(2, plain, (ts, asks, bids) => ({ ts, asks, bids, extra: noExtra })),
  fields: bookFields,
  timeOf: ({ ts }) => ts,
  unknownPositions: unknownPositions(2),
}
export const rpiOrderBookRow: RowSchema<RpiOrderBookPayload> = {
  read: bookReader(3, rpi, (ts, asks, bids) => ({ ts, asks, bids, extra: noExtra })),
  fields: bookFields,
  timeOf: ({ ts }) => ts,
  unknownPositions: unknownPositions(3),
}
