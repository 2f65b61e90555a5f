import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isLosslessNumber, parse, stringify } from 'lossless-json'

/** Deeper than anything the service sends, shallow enough that no recursive reader runs out of stack. */
export const maxDepth = 32

/** So many bytes are looked at in one turn, within a millisecond or two. */
const turnBytes = 524_288

const quote = 0x22
const backslash = 0x5c
const minus = 0x2d
const zero = 0x30
const nine = 0x39
const space = 0x20
const comma = 0x2c
const openingBracket = 0x5b
const closingBracket = 0x5d
const openingBrace = 0x7b
const closingBrace = 0x7d

/**
 * Parses JSON so that no number loses a digit: a number inside the envelope's data comes as a `LosslessNumber`, which
 * holds its text. Numbers of the envelope itself (depth 1) may come as JavaScript numbers.
 * Throws a `SyntaxError` that says what is wrong with the text.
 */
export async function parseLossless(body: Buffer): Promise<unknown> {
  const shape = await inspect(body, 0)
  if (shape.depth > maxDepth) throw new SyntaxError(`it is nested more than ${maxDepth} levels deep`)
  if (!isUtf8(body)) throw new SyntaxError('it is not UTF-8 text')
  return parseText(body.toString('utf8'), shape.holdsNumbers)
}

/** Parses text whose depth is known to be bounded. `holdsNumbers` is found out where it is not given. */
export function parseText(text: string, holdsNumbers = anyNumber.test(text)): unknown {
  // Most responses hold all numbers as strings, and the built-in parser is ten times as fast.
  if (!holdsNumbers) return JSON.parse(text) as unknown
  // The last of several equal keys wins, as in JSON.parse.
  return parse(text, null, { onDuplicateKey: ({ newValue }) => newValue })
}

/** Finds every number that is no part of a string, and sometimes one that is: the parsers agree about strings. */
const anyNumber = /[[:,{\s]-?\d/

/** The JSON text of a parsed value, its numbers as they were sent. */
export function losslessText(value: unknown): string {
  return stringify(value) ?? 'null'
}

/** The text of a decimal sent as a string or as a number; undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (isLosslessNumber(value)) return value.value
  return typeof value === 'number' ? String(value) : undefined
}

/** The value with its numbers turned to text. */
export function numbersAsText(value: unknown): unknown {
  if (isLosslessNumber(value)) return value.value
  if (Array.isArray(value)) return value.map(numbersAsText)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, numbersAsText(inner)]))
}

export interface JsonShape {
  /** How deep it nests. */
  readonly depth: number
  /** Whether numbers stand below depth 1. */
  readonly holdsNumbers: boolean
  /** The array at depth 1, if there is exactly one: the rows of a response. */
  readonly list: JsonList | null
}

export interface JsonList {
  /** The place behind its opening bracket. */
  readonly start: number
  /** The place of its closing bracket. */
  readonly end: number
  /** The commas between its elements, as far as they are to be read. */
  readonly commas: readonly number[]
  readonly elements: number
}

/** One pass over the bytes, of which `maxRows` elements of the list are to be read; without judging their syntax, with a turn for others now and then. */
export async function inspect(body: Buffer, maxRows: number): Promise<JsonShape> {
  let depth = 0
  let deepest = 0
  let holdsNumbers = false
  let inString = false
  let lists = 0
  let start = -1
  let end = -1
  let isBlank = true
  let separators = 0
  const commas: number[] = []
  for (let i = 0, turnEnd = turnBytes; i < body.length; i++) {
    if (i >= turnEnd) {
      turnEnd += turnBytes
      await nextTurn()
    }
    const byte = body[i] as number
    if (inString) {
      if (byte === backslash) i++
      else if (byte === quote) inString = false
      continue
    }
    if (depth === 2 && end < 0 && start >= 0 && isBlank && byte > space && byte !== closingBracket) isBlank = false
    if (byte === quote) {
      inString = true
    } else if (byte === openingBracket || byte === openingBrace) {
      if (depth === 1 && byte === openingBracket && lists++ === 0) start = i + 1
      depth++
      if (depth > deepest) deepest = depth
    } else if (byte === closingBracket || byte === closingBrace) {
      if (depth === 2 && start >= 0 && end < 0) end = i
      depth--
    } else if (byte === comma) {
      if (depth === 2 && start >= 0 && end < 0 && separators++ < maxRows) commas.push(i)
    } else if (depth > 1 && (byte === minus || (byte >= zero && byte <= nine))) {
      holdsNumbers = true
    }
  }
  const isList = lists === 1 && end >= 0 && body[end] === closingBracket
  const elements = isBlank ? 0 : separators + 1
  return { depth: deepest, holdsNumbers, list: isList ? { start, end, commas, elements } : null }
}
