import { maxLevels } from './bounds.js'

/** `a` and `b`. */
const sideNames = [0x61, 0x62]
const space = 0x20
const quote = 0x22
const comma = 0x2c
const minus = 0x2d
const point = 0x2e
const zero = 0x30
const nine = 0x39
const colon = 0x3a
const openingBracket = 0x5b
const backslash = 0x5c
const closingBracket = 0x5d
const openingBrace = 0x7b
const closingBrace = 0x7d

/** Longer than any honest number. */
const maxNumberLength = 100

/** One side of a book: a column of decimals for each place of its levels, in plain form and as they were sent. */
export class Levels {
  readonly columns: readonly string[][]

  constructor(columns: readonly string[][]) {
    this.columns = columns
  }
}

/** The text of a response with an order book, taken apart. */
export interface ScannedBook {
  readonly asks: Levels
  readonly bids: Levels
  /** What is left: the same JSON with a null in the place of each side. */
  readonly rest: string
}

/**
 * Reads the sides `a` and `b` of `data` straight from the text, which takes a quarter of the time of parsing it: a level is two or
 * three numbers, and an array for each, with a look at each of its elements, is most of what an order book costs. For responses of
 * the ordinary form alone: levels of `width` numbers without exponents, perhaps in quotes; besides them nothing but texts in
 * `data`; no blanks. Null for anything else, which is for a parser to understand or to refuse; `rest` is its to judge in any case.
 */
export function scanBook(text: string, width: number): ScannedBook | null {
  const { length } = text
  const sides: [asks: Levels | null, bids: Levels | null] = [null, null]
  let rest = ''
  let kept = 0
  let depth = 0
  let hasData = false
  for (let i = 0; i < length;) {
    const code = text.charCodeAt(i)
    if (code === quote) {
      const side = depth === 2 && text.charCodeAt(i + 2) === quote ? sideNames.indexOf(text.charCodeAt(i + 1)) : -1
      if (side >= 0 && text.charCodeAt(i + 3) === colon) {
        // Of two of the same name the last counts: that is left to a parser, too.
        if (sides[side] !== null) return null
        const columns: string[][] = Array.from({ length: width }, () => [])
        const end = endOfSide(text, i + 4, columns)
        if (end < 0) return null
        sides[side] = new Levels(columns)
        rest += `${text.slice(kept, i + 4)}null`
        kept = i = end
      } else {
        i++
        for (let inner = text.charCodeAt(i); inner !== quote; inner = text.charCodeAt(++i))
          if (inner === backslash || i >= length) return null
        i++
      }
      continue
    }
    if (code === openingBrace) {
      if (depth === 1) {
        if (hasData || !text.startsWith('"data":', i - 7)) return null
        hasData = true
      }
      depth++
    } else if (code === closingBrace) depth--
    else if (code === openingBracket || code <= space) return null
    else if (depth > 1 && (code === minus || (code >= zero && code <= nine))) return null
    i++
  }
  const [asks, bids] = sides
  return asks === null || bids === null ? null : { asks, bids, rest: rest + text.slice(kept) }
}

/** Reads a side from its opening bracket into the columns, and tells the place behind its closing one; -1 for another form. */
function endOfSide(text: string, start: number, columns: readonly string[][]): number {
  const width = columns.length
  if (text.charCodeAt(start) !== openingBracket) return -1
  let i = start + 1
  if (text.charCodeAt(i) === closingBracket) return i + 1
  for (let level = 0; level < maxLevels; level++) {
    if (text.charCodeAt(i++) !== openingBracket) return -1
    for (let place = 0; place < width; place++) {
      const isQuoted = text.charCodeAt(i) === quote
      if (isQuoted) i++
      const end = endOfDecimal(text, i, isQuoted)
      if (end < 0 || end - i > maxNumberLength) return -1
      ;(columns[place] as string[]).push(text.slice(i, end))
      i = end
      if (isQuoted && text.charCodeAt(i++) !== quote) return -1
      if (text.charCodeAt(i++) !== (place + 1 < width ? comma : closingBracket)) return -1
    }
    const next = text.charCodeAt(i++)
    if (next === closingBracket) return i
    if (next !== comma) return -1
  }
  return -1
}

/** The place behind a decimal without an exponent; -1 where there is none. A bare one has no zeros before it, by JSON's grammar. */
function endOfDecimal(text: string, start: number, isQuoted: boolean): number {
  let i = text.charCodeAt(start) === minus ? start + 1 : start
  const whole = i
  let code = text.charCodeAt(i)
  if (!(code >= zero && code <= nine)) return -1
  const isZero = code === zero
  do code = text.charCodeAt(++i)
  while (code >= zero && code <= nine)
  if (isZero && i > whole + 1 && !isQuoted) return -1
  if (code !== point) return i
  const fraction = i + 1
  do code = text.charCodeAt(++i)
  while (code >= zero && code <= nine)
  return i === fraction ? -1 : i
}
