import type { BookRow } from './world/books.js'

/** The `data` of a response, as values and as the JSON text that is sent. Null text is a body of zero bytes. */
export interface ResponseData {
  readonly data: unknown
  readonly text: string | Buffer | null
}

/** A book as JSON text. Its numbers are written digit by digit: no number type holds them all. */
export function bookText(book: BookRow, asStrings: boolean): string {
  return `{"a":${levelsText(book.a, asStrings)},"b":${levelsText(book.b, asStrings)},"ts":"${book.ts}"}`
}

/** One side of a book as JSON text. */
export function levelsText(levels: BookRow['a'], asStrings: boolean): string {
  if (asStrings) return JSON.stringify(levels)
  return `[${levels.map((level) => `[${level.join(',')}]`).join(',')}]`
}
