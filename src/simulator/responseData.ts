import type { Operation } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import type { BookRow } from './world/books.js'
import { mixWide } from './world/hash.js'
import type { Quirks } from './world/quirks.js'

/** The `data` of a response, as values and as the JSON text that is sent. Null text is a body of zero bytes. */
export interface ResponseData {
  readonly data: unknown
  readonly text: string | Buffer | null
}

/** Returns a book as JSON text. Its numbers are passed on as text, because no number type holds all their digits. */
export function bookText(book: BookRow, asStrings: boolean): string {
  return `{"a":${levelsText(book.a, asStrings)},"b":${levelsText(book.b, asStrings)},"ts":"${book.ts}"}`
}

/** Returns one side of a book as JSON text. */
function levelsText(levels: BookRow['a'], asStrings: boolean): string {
  if (asStrings) return JSON.stringify(levels)
  return `[${levels.map((level) => `[${level.join(',')}]`).join(',')}]`
}

/**
 * Returns the envelope around `data`, as the parts of a body. The text of the data is passed on as it is, because
 * parsing and printing it again would lose digits.
 */
export function envelope(
  quirks: Quirks,
  code: string,
  message: string,
  requestTime: TimeMs,
  data: string | Buffer,
): readonly (string | Buffer)[] {
  const quotedCode = `"code":${JSON.stringify(code)}`
  const quotedMessage = `"msg":${JSON.stringify(message)}`
  const time = `"requestTime":${requestTime}`
  switch (quirks.envelopeOrderVaries ? mixWide(0xe4, requestTime) % 3 : 0) {
    case 1:
      return ['{"data":', data, `,${quotedCode},${quotedMessage},${time}}`]
    case 2:
      return [`{${time},${quotedMessage},"data":`, data, `,${quotedCode}}`]
    default:
      return [`{${quotedCode},${quotedMessage},${time},"data":`, data, '}']
  }
}

/** How one row of a page is spoiled: a field of the wrong type, a missing field, or a text that is no number. */
type BrokenKind = 'type' | 'missing' | 'nonsense'

/** Names of two fields of each operation: one that identifies a row, and one that is a number or a known word. */
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
