import type { Operation } from '../market/stream.js'
import { levelsText, type ResponseData } from './responseData.js'
import type { BookRow } from './world/books.js'

/** How one row of a page is spoiled: a field of the wrong type, a missing field, or a number that is none. */
type BrokenKind = 'type' | 'missing' | 'nonsense'

/** Fields without which a row of the operation has no meaning, and one that must be a number (or a known word). */
const fields: Readonly<Partial<Record<Operation, readonly [identity: string, value: string]>>> = {
  instruments: ['symbol', 'pricePrecision'],
  'rpi-symbols': ['symbol', 'category'],
  tickers: ['symbol', 'lastPrice'],
  fills: ['execId', 'price'],
  candles: ['0', '1'],
  'history-candles': ['0', '1'],
  'futures-fills-history': ['tradeId', 'price'],
  'spot-fills-history': ['tradeId', 'price'],
}

/** Returns a copy of the page with its middle row broken. In an order book, the best ask is broken. */
export function brokenData(operation: Operation, kind: BrokenKind, response: ResponseData): ResponseData {
  const names = fields[operation]
  if (!names) return brokenBook(response.data as BookRow, kind)
  const rows = response.data as readonly (Readonly<Record<string, unknown>> | readonly unknown[])[]
  const middle = Math.floor(rows.length / 2)
  const data = rows.map((row, index) => (index === middle ? brokenRow(row, kind, names) : row))
  return { data, text: JSON.stringify(data) }
}

function brokenRow(
  row: Readonly<Record<string, unknown>> | readonly unknown[],
  kind: BrokenKind,
  [identity, value]: readonly [string, string],
): unknown {
  if (kind === 'missing') {
    if (Array.isArray(row)) return row.slice(0, 3)
    return Object.fromEntries(Object.entries(row).filter(([name]) => name !== identity))
  }
  const change = kind === 'type' ? { [identity]: { unexpected: true } } : { [value]: '1.2.3' }
  return Object.assign(structuredClone(row), change)
}

function brokenBook(book: BookRow, kind: BrokenKind): ResponseData {
  if (kind === 'missing') {
    const data = { a: book.a, b: book.b }
    return { data, text: `{"a":${levelsText(book.a, false)},"b":${levelsText(book.b, false)}}` }
  }
  const broken = kind === 'type' ? [true, null] : ['1.2.3', 'many']
  const a = [broken, ...book.a.slice(1)]
  const rest = book.a.slice(1).map((level) => `,[${level.join(',')}]`)
  const text = `{"a":[${JSON.stringify(broken)}${rest.join('')}],"b":${levelsText(book.b, false)},"ts":"${book.ts}"}`
  return { data: { ...book, a }, text }
}
